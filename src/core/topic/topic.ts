import { invalid } from "../errors/errors.ts";
import { checkQueueName, LONGEST_NAME } from "../queue/queue-name.ts";
import { show } from "../errors/show.ts";
import type { Headers, NewMessage, NewTask } from "../task/task.ts";
import { isVerificationQueue } from "../handler/verification.ts";

/**
 * Every copy of a published task has its topic in this header: a subscriber to a pattern needs to know which topic it
 * was.
 */
export const TOPIC_HEADER = "dibs-topic";

/** * matches exactly one word, # any number of words, including none. */
export const ONE_WORD = "*";
export const ANY_WORDS = "#";

const LONGEST = 128;
const WORD = /^[A-Za-z0-9_-]+$/;

export function checkTopic(topic: unknown): string {
  if (
    typeof topic !== "string" ||
    topic.length > LONGEST ||
    !topic.split(".").every((word) => WORD.test(word))
  ) {
    throw invalid(
      `A topic has 1 to ${LONGEST} characters: words of letters, digits, _ and -, with dots between them, as in ` +
        `"order.placed"; got ${show(topic)}.`,
    );
  }
  return topic;
}

export function checkPattern(pattern: unknown): string {
  const isWord = (word: string): boolean => word === ONE_WORD || word === ANY_WORDS || WORD.test(word);
  if (typeof pattern !== "string" || pattern.length > LONGEST || !pattern.split(".").every(isWord)) {
    throw invalid(
      `A pattern is a topic in which * may stand for one word and # for any number of words, each between dots, as in ` +
        `"order.*" or "order.#"; got ${show(pattern)}.`,
    );
  }
  return pattern;
}

/**
 * The name of a subscription's queue, unique for each pattern and group, in the alphabet of queue names: no topic's
 * word contains a colon, and no pattern a slash.
 */
export function subscriptionQueue(pattern: string, group: string): string {
  checkPattern(pattern);
  checkGroup(group);
  const words = pattern.split(".").map((word) => WILDCARDS[word] ?? word);
  const queue = `topic/${words.join(".")}/${group}`;
  if (queue.length > LONGEST_NAME) {
    throw invalid(
      `The queue of this subscription would be called ${show(queue)}, with ${queue.length} characters; ` +
        `at most ${LONGEST_NAME} are allowed. Shorten the topic or the name of the group.`,
    );
  }
  return queue;
}

const WILDCARDS: Record<string, string | undefined> = Object.assign(Object.create(null) as object, {
  [ONE_WORD]: ":one",
  [ANY_WORDS]: ":any",
});

function checkGroup(group: unknown): string {
  if (typeof group === "string" && isVerificationQueue(group))
    throw invalid(
      `A group cannot be called ${show(group)}: names that end in /verify are reserved for verification queues. Choose another name.`,
    );
  try {
    return checkQueueName(group);
  } catch {
    throw invalid(
      `A subscription is named by its group, in ASCII letters and digits, with _ . : / - between them, as in "inventory"; ` +
        `got ${show(group)}.`,
    );
  }
}

/** The matching rule, word by word. `reached`: the positions in the topic that the pattern can have reached. */
export function matchesTopic(pattern: string, topic: string): boolean {
  const words = topic.split(".");
  let reached = new Set([0]);
  for (const part of pattern.split(".")) {
    const next = new Set<number>();
    if (part === ANY_WORDS) {
      // The lowest position comes first. The others reach no position that it does not reach.
      const [first = Infinity] = reached;
      for (let to = first; to <= words.length; to++) next.add(to);
    } else {
      for (const at of reached)
        if (at < words.length && (part === ONE_WORD || part === words[at])) next.add(at + 1);
    }
    reached = next;
  }
  return reached.has(words.length);
}

/** The tasks that a message becomes: one for each distinct queue. */
export function copiesOf({ topic, ...task }: NewMessage, queues: readonly string[]): NewTask[] {
  if (queues.length === 0) return [];
  const headers: Headers = { ...task.headers, [TOPIC_HEADER]: topic };
  return [...new Set(queues)].map((queue) => ({ ...task, queue, headers }));
}
