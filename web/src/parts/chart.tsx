/** Bars over time on a logarithmic scale, one for each commit: latencies differ by powers of ten. */

import { useRef } from "preact/hooks";

export interface Bar {
  readonly key: number;
  readonly value: number;
  /** The part of the value that is drawn in a stronger colour. */
  readonly part?: number;
  readonly label: string;
}

export interface ChartProps {
  readonly title: string;
  readonly bars: readonly Bar[];
  readonly kind: string;
  readonly format: (value: number) => string;
  readonly selected: number | undefined;
  readonly onSelect: (key: number) => void;
}

const HEIGHT = 120;
const EDGE = 8; // above and below the bars
const STEP = 9;

/** The powers of ten between which all values lie. */
export function scaleOf(values: readonly number[]): { low: number; high: number } {
  const positive = values.filter((value) => value > 0);
  if (!positive.length) return { low: 0, high: 1 };
  const low = Math.floor(Math.log10(Math.min(...positive)));
  const high = Math.ceil(Math.log10(Math.max(...positive)));
  return { low, high: Math.max(high + 0, low + 1) }; // never −0
}

export function Chart({ title, bars, kind, format, selected, onSelect }: ChartProps) {
  const chart = useRef<SVGSVGElement>(null);
  const { low, high } = scaleOf(bars.flatMap(({ value, part }) => (part === undefined ? [value] : [value, part])));
  const heightOf = (value: number) => (value <= 0 ? 1 : Math.max(2, (HEIGHT * (Math.log10(value) - low)) / (high - low)));
  const width = Math.max(60, bars.length) * STEP + 8;
  const yOf = (power: number) => EDGE + HEIGHT - (HEIGHT * (power - low)) / (high - low);
  const ticks = Array.from({ length: high - low + 1 }, (_, index) => low + index).filter((_, index, all) => all.length <= 5 || index % 2 === 0);

  const onKeyDown = (event: KeyboardEvent, index: number) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    const next = bars[index + step];
    if (!step || !next) return;
    event.preventDefault();
    onSelect(next.key);
    chart.current?.querySelector<SVGElement>(`[data-key="${next.key}"]`)?.focus();
  };
  const first = bars.some(({ key }) => key === selected) ? selected : bars.at(-1)?.key;
  return (
    <figure class={`chart ${kind}`} aria-label={title}>
      <figcaption aria-hidden="true">{title}</figcaption>
      <div class="chart-frame">
        {ticks.map((power) => (
          <span key={power} class="tick" style={{ top: `${(100 * yOf(power)) / (HEIGHT + 2 * EDGE)}%` }}>
            {format(10 ** power)}
          </span>
        ))}
        <svg ref={chart} viewBox={`0 0 ${width} ${HEIGHT + 2 * EDGE}`} role="none" preserveAspectRatio="none">
          {ticks.map((power) => (
            <line key={power} x1={0} x2={width} y1={yOf(power)} y2={yOf(power)} class="grid" />
          ))}
          {bars.map((bar, index) => {
            const x = 4 + index * STEP;
            const [whole, part] = [heightOf(bar.value), heightOf(bar.part ?? 0)];
            return (
              <g
                key={bar.key}
                data-key={bar.key}
                class={bar.key === selected ? "bar-group selected" : "bar-group"}
                role="button"
                aria-label={bar.label}
                aria-pressed={bar.key === selected}
                tabindex={bar.key === first ? 0 : -1}
                onClick={() => onSelect(bar.key)}
                onKeyDown={(event) => onKeyDown(event, index)}
              >
                <title>{bar.label}</title>
                <rect x={x - 1} y={EDGE / 2} width={STEP} height={HEIGHT + EDGE} class="bar-area" />
                <rect x={x} y={EDGE + HEIGHT - whole} width={STEP - 2} height={whole} rx={1.5} class="bar-whole" />
                {bar.part !== undefined && (
                  <rect x={x} y={EDGE + HEIGHT - part} width={STEP - 2} height={part} rx={1.5} class="bar-part" />
                )}
              </g>
            );
          })}
        </svg>
      </div>
    </figure>
  );
}
