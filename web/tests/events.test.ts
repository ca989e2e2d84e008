import { describe, expect, test } from "vitest";
import { EventParser, listen, Refused, type ServerEvent } from "../src/api/events";

const parsed = (...pieces: string[]) => {
  const parser = new EventParser();
  return pieces.flatMap((piece) => [...parser.take(piece)]);
};

describe("events", () => {
  test("an event ends with an empty line, in whatever pieces it arrives", () => {
    const text = "event: change\nid: 7\ndata: {\ndata: }\n\n: awake\n\nid: 8\ndata: x\r\n\r\n";
    const expected = [
      { event: "change", id: "7", data: "{\n}" },
      { event: "message", id: "8", data: "x" },
    ];
    expect(parsed(text)).toEqual(expected);
    expect(parsed(...text)).toEqual(expected);
  });

  test("an id stays until there is another one", () => {
    expect(parsed("id: 3\ndata: a\n\ndata: b\n\n").map(({ id }) => id)).toEqual(["3", "3"]);
  });

  test("what has no data is no event", () => {
    expect(parsed("event: progress\nid: 3\n\n")).toEqual([]);
  });
});

const stream = (text: string) => new Response(text);

describe("listening", () => {
  test("goes on after the last event that was heard of", async () => {
    const [asked, heard] = [[] as (string | undefined)[], [] as ServerEvent[]];
    const answers = ["id: 1\ndata: a\n\nid: 2\ndata: b\n\nid: 3\ndata: cut", "id: 3\ndata: c\n\nevent: stop\ndata: -\n\n"];
    await listen(
      {
        connect: async (lastId) => {
          asked.push(lastId);
          return stream(answers[asked.length - 1] ?? "");
        },
        onEvent: (event) => {
          if (event.event === "stop") return "end";
          heard.push(event);
          return undefined;
        },
      },
      AbortSignal.timeout(5000),
    );
    expect(asked).toEqual([undefined, "2"]);
    expect(heard.map(({ data }) => data)).toEqual(["a", "b", "c"]);
  });

  test("tries again after a failure, and gives up where it is refused", async () => {
    const [states, outcomes] = [[] as string[], [new TypeError("no network"), new Refused("no such query")]];
    await listen(
      {
        connect: async () => {
          throw outcomes.shift();
        },
        onEvent: () => undefined,
        onState: (state) => states.push(state),
      },
      AbortSignal.timeout(5000),
    );
    expect(states).toEqual(["waiting", "ended"]);
  });
});
