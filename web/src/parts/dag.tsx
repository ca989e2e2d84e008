/** An acyclic graph that can be looked at closely: boxes that are buttons, curves between them, zoom, and arrow keys that
 * walk along the curves.
 */

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { DagNode, Direction, Placed } from "../graph/layout";

export interface DagBox extends DagNode {
  readonly label: string;
  readonly kind: string;
  readonly content: ComponentChildren;
}

export interface DagProps {
  readonly boxes: readonly DagBox[];
  readonly direction: Direction;
  readonly title: string;
  readonly selected?: string | undefined;
  readonly onSelect: (id: string) => void;
  /** The kind of an edge, for its style. */
  readonly edgeKind?: (source: string, target: string) => string;
}

const MARGIN = 24;
const ZOOMS = [0.4, 0.55, 0.7, 0.85, 1, 1.2, 1.5, 2] as const;
const ACTUAL = ZOOMS.indexOf(1);

function usePlaced(boxes: readonly DagBox[], direction: Direction): Placed | undefined {
  const [placed, setPlaced] = useState<Placed>();
  // The same boxes in the same places need no new layout, whatever they say now.
  const shape = JSON.stringify([direction, boxes.map(({ id, parents, width, height }) => [id, parents, width, height])]);
  useEffect(() => {
    let current = true;
    void import("../graph/layout").then(({ layOut }) => {
      if (current) setPlaced(layOut(boxes, direction));
    });
    return () => {
      current = false;
    };
  }, [shape]);
  return placed;
}

export function Dag({ boxes, direction, title, selected, onSelect, edgeKind }: DagProps) {
  const placed = usePlaced(boxes, direction);
  const [zoom, setZoom] = useState(ACTUAL);
  const frame = useRef<HTMLDivElement>(null);
  const scale = ZOOMS[zoom] ?? 1;

  // A graph that is wider than the page starts smaller, but never too small to read.
  useLayoutEffect(() => {
    const room = frame.current;
    if (!placed || !room) return;
    const fit = room.clientWidth / (placed.width + 2 * MARGIN);
    const best = ZOOMS.findLastIndex((step) => step <= fit);
    setZoom(Math.min(ACTUAL, Math.max(ZOOMS.indexOf(0.7), best)));
  }, [placed]);

  const first = boxes.some(({ id }) => id === selected) ? selected : boxes[0]?.id;

  // What does not fit is seen from the chosen box on, at first and after each zoom.
  useLayoutEffect(() => {
    const room = frame.current;
    const place = first === undefined ? undefined : placed?.places.get(first);
    if (!room || !place) return;
    room.scrollLeft = MARGIN + place.x * scale - room.clientWidth / 2;
    room.scrollTop = MARGIN + place.y * scale - room.clientHeight / 2;
  }, [placed, scale]);

  const children = useMemo(() => {
    const found = new Map<string, string[]>();
    for (const { id, parents } of boxes) for (const parent of parents) found.set(parent, [...(found.get(parent) ?? []), id]);
    return found;
  }, [boxes]);

  const focus = (id: string | undefined) => {
    const box = id === undefined ? null : frame.current?.querySelector<HTMLElement>(`[data-id="${CSS.escape(id)}"]`);
    box?.focus();
    box?.scrollIntoView({ block: "nearest", inline: "nearest" });
  };

  const onKeyDown = (event: KeyboardEvent, box: DagBox) => {
    const [forward, back] = direction === "right" ? ["ArrowRight", "ArrowLeft"] : ["ArrowDown", "ArrowUp"];
    const [next, previous] = direction === "right" ? ["ArrowDown", "ArrowUp"] : ["ArrowRight", "ArrowLeft"];
    const index = boxes.indexOf(box);
    const target =
      event.key === forward ? children.get(box.id)?.[0]
      : event.key === back ? box.parents[0]
      : event.key === next ? beside(placed, boxes, box, direction, 1)
      : event.key === previous ? beside(placed, boxes, box, direction, -1)
      : event.key === "Home" ? boxes[0]?.id
      : event.key === "End" ? boxes.at(-1)?.id
      : undefined;
    if (target === undefined || index < 0) return;
    event.preventDefault();
    focus(target);
  };

  return (
    <div class="dag">
      <div class="dag-frame" ref={frame} role="group" aria-label={title}>
        {placed ? (
          <div class="dag-room" style={{ width: `${(placed.width + 2 * MARGIN) * scale}px`, height: `${(placed.height + 2 * MARGIN) * scale}px` }}>
            <div class="dag-plane" style={{ transform: `scale(${scale})`, width: `${placed.width}px`, height: `${placed.height}px` }}>
              <svg class="dag-edges" width={placed.width} height={placed.height} aria-hidden="true">
                {placed.edges.map(({ source, target, path }) => {
                  const touched = source === selected || target === selected;
                  return (
                    <path
                      key={`${source} ${target}`}
                      d={path}
                      class={`dag-edge ${edgeKind?.(source, target) ?? ""} ${touched ? "touched" : ""}`}
                    />
                  );
                })}
              </svg>
              {boxes.map((box) => {
                const place = placed.places.get(box.id);
                if (!place) return null;
                const corner = { left: `${place.x - box.width / 2}px`, top: `${place.y - box.height / 2}px` };
                return (
                  <button
                    key={box.id}
                    type="button"
                    data-id={box.id}
                    class={`dag-box ${box.kind} ${box.id === selected ? "selected" : ""}`}
                    style={{ ...corner, width: `${box.width}px`, height: `${box.height}px` }}
                    aria-label={box.label}
                    aria-pressed={box.id === selected}
                    tabIndex={box.id === first ? 0 : -1}
                    onClick={() => onSelect(box.id)}
                    onKeyDown={(event) => onKeyDown(event, box)}
                  >
                    {box.content}
                  </button>
                );
              })}
            </div>
          </div>
        ) : (
          <p class="quiet pad">Drawing …</p>
        )}
      </div>
      <div class="dag-tools" role="group" aria-label="Zoom">
        <button type="button" class="icon" aria-label="Smaller" disabled={zoom === 0} onClick={() => setZoom(zoom - 1)}>
          −
        </button>
        <span class="dag-zoom">{Math.round(scale * 100)} %</span>
        <button type="button" class="icon" aria-label="Larger" disabled={zoom === ZOOMS.length - 1} onClick={() => setZoom(zoom + 1)}>
          +
        </button>
      </div>
    </div>
  );
}

/** The nearest box in the same layer, in one direction or the other. */
function beside(
  placed: Placed | undefined,
  boxes: readonly DagBox[],
  box: DagBox,
  direction: Direction,
  step: number,
): string | undefined {
  const here = placed?.places.get(box.id);
  if (!placed || !here) return undefined;
  const along = direction === "right" ? "y" : "x";
  const across = direction === "right" ? "x" : "y";
  const distance = (id: string) => {
    const there = placed.places.get(id);
    if (!there) return Infinity;
    const ahead = (there[along] - here[along]) * step;
    return ahead > 0 ? ahead + 4 * Math.abs(there[across] - here[across]) : Infinity;
  };
  const nearest = boxes.toSorted((left, right) => distance(left.id) - distance(right.id))[0];
  return nearest && distance(nearest.id) < Infinity ? nearest.id : undefined;
}
