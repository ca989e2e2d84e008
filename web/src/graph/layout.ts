/** Where the nodes of an acyclic graph go: in layers, each after all that it comes from (Sugiyama's method, by d3-dag).
 *
 * Large graphs get the quick variants of each step. This module is loaded when the first graph is shown.
 */

import {
  coordGreedy,
  coordSimplex,
  decrossDfs,
  decrossTwoLayer,
  graphStratify,
  layeringLongestPath,
  layeringSimplex,
  sugiyama,
} from "d3-dag";

export interface DagNode {
  readonly id: string;
  readonly parents: readonly string[];
  readonly width: number;
  readonly height: number;
}

export interface Point {
  readonly x: number;
  readonly y: number;
}

export interface Placed {
  readonly width: number;
  readonly height: number;
  /** The middle of each node, by id. */
  readonly places: ReadonlyMap<string, Point>;
  readonly edges: readonly { readonly source: string; readonly target: string; readonly path: string }[];
}

export type Direction = "right" | "down";

const BETWEEN_LAYERS = 56;
const WITHIN_LAYER = 18;
const MANY = 120;

export function layOut(nodes: readonly DagNode[], direction: Direction): Placed {
  const graph = graphStratify()(nodes.map(({ id, parents, width, height }) => ({ id, parentIds: parents, width, height })));
  const right = direction === "right";
  // d3-dag lays out downwards; a layout to the right is one downwards with x and y exchanged.
  const size = ({ data }: { data: { width: number; height: number } }): [number, number] =>
    right ? [data.height, data.width] : [data.width, data.height];
  const many = nodes.length > MANY;
  const layout = sugiyama()
    .nodeSize(size)
    .gap([WITHIN_LAYER, BETWEEN_LAYERS])
    .layering(many ? layeringLongestPath() : layeringSimplex())
    .decross(many ? decrossDfs() : decrossTwoLayer())
    .coord(many ? coordGreedy() : coordSimplex());
  const { width, height } = layout(graph);
  const turned = (x: number, y: number): Point => (right ? { x: y, y: x } : { x, y });
  const places = new Map([...graph.nodes()].map((node) => [node.data.id, turned(node.x, node.y)]));
  const edges = [...graph.links()].map((link) => {
    const [source, target] = [link.source.data, link.target.data];
    const inner = link.points.slice(1, -1).map(([x, y]) => turned(x, y));
    const [from, to] = [places.get(source.id), places.get(target.id)] as [Point, Point];
    const ends = right
      ? [{ x: from.x + source.width / 2, y: from.y }, { x: to.x - target.width / 2, y: to.y }]
      : [{ x: from.x, y: from.y + source.height / 2 }, { x: to.x, y: to.y - target.height / 2 }];
    const path = curve([ends[0] as Point, ...inner, ends[1] as Point], right);
    return { source: source.id, target: target.id, path };
  });
  return right ? { width: height, height: width, places, edges } : { width, height, places, edges };
}

/** A smooth line through points that leaves each of them along the direction of the layout. */
export function curve(points: readonly Point[], right: boolean): string {
  const round = (value: number) => Math.round(value * 10) / 10;
  return points
    .map(({ x, y }, index) => {
      const before = points[index - 1];
      if (!before) return `M${round(x)},${round(y)}`;
      const [middleX, middleY] = [round((before.x + x) / 2), round((before.y + y) / 2)];
      return right
        ? `C${middleX},${round(before.y)} ${middleX},${round(y)} ${round(x)},${round(y)}`
        : `C${round(before.x)},${middleY} ${round(x)},${middleY} ${round(x)},${round(y)}`;
    })
    .join("");
}
