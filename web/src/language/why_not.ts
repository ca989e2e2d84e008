/** The server's report of why a fact does not hold, cut into lines with their marks. */

export interface ReportLine {
  readonly depth: number;
  readonly mark: "holds" | "fails" | "open" | undefined;
  /** A fact, a rule or a condition. */
  readonly subject: string;
  readonly remark: string;
}

const MARKS = { "✓": "holds", "✗": "fails", "?": "open" } as const;
const LINE = /^( *)(?:([✓✗?]) )?(.*?)(?:\s{2,}(.*))?$/u;

/** The lines after the first sentence. What the marks mean is said by their look, and left out. */
export function reportLines(text: string): ReportLine[] {
  return text
    .split("\n")
    .slice(1)
    .filter((line) => line.trim() && !line.startsWith("(✓"))
    .map((line) => {
      const [, indent = "", mark, subject = "", remark = ""] = LINE.exec(line) ?? [];
      return { depth: indent.length / 2, mark: mark ? MARKS[mark as keyof typeof MARKS] : undefined, subject, remark };
    });
}

/** Whether a subject reads like a fact that can be asked about in turn. */
export function isFact(subject: string): boolean {
  return /^[^\s(]+\([^]*\)$/.test(subject) && !/(?:^|[(,\s])(?:\?\w+|[A-Z_]\w*)(?=[,)\s])/.test(subject.replace(/"(?:[^"\\]|\\.)*"/g, "''"));
}
