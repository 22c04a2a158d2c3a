import { readFileSync } from "node:fs";

/** The file with RabbitMQ's answers to the scripts of a theme. */
export function recordingOf(theme: string): URL {
  return new URL(`recorded/${theme}.json`, import.meta.url);
}

export function readRecording(theme: string): Record<string, string[]> {
  return JSON.parse(readFileSync(recordingOf(theme), "utf8")) as Record<string, string[]>;
}
