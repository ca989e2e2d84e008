/** Numbers and times as people read them. */

const COUNT = new Intl.NumberFormat("en");
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export function count(value: number): string {
  return COUNT.format(value);
}

/** A count in few characters: `4.2K`. */
export function short(value: number): string {
  return Math.abs(value) < 10_000 ? COUNT.format(value) : SHORT.format(value);
}

/** A count with its noun: `1 fact`, `2 facts`. */
export function counted(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

/** A duration: `340 µs`, `2.1 ms`, `1.5 s`. */
export function duration(seconds: number): string {
  if (seconds <= 0) return "0 s";
  if (seconds < 1e-3) return `${digits(seconds * 1e6)} µs`;
  if (seconds < 1) return `${digits(seconds * 1e3)} ms`;
  return seconds < 120 ? `${digits(seconds)} s` : `${digits(seconds / 60)} min`;
}

function digits(value: number): string {
  return value < 10 ? value.toFixed(1).replace(/\.0$/, "") : COUNT.format(Math.round(value));
}

/** The time of the day of an instant. */
export function clock(instant: string): string {
  const time = new Date(instant);
  return Number.isNaN(time.getTime()) ? instant : time.toLocaleTimeString("en-GB");
}
