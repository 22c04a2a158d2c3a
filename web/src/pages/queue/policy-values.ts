/** Values of a policy as texts of the editor, and back. A text that stands for no value throws a sentence. */

import { readDuration, writeDuration } from "../../format/duration.ts";

/** As the server takes it: durations stay text, so that the shell's form of a change is the same. */
export type PolicyValue = string | number | boolean | null | Rate[] | Record<string, number> | Hours;

interface Hours {
  hours: string;
  tz: string;
}

export interface Rate {
  max: number;
  per: string;
  pace?: boolean;
  unit?: string;
}

export function readTime(text: string, label: string): string {
  const ms = readDuration(text);
  if (ms === null) throw new Error(`${label}: “${text}” is no duration. Write 250ms, 30s, 5m, 2h or 1d.`);
  return writeDuration(ms);
}

export function readWhole(text: string, label: string): number {
  if (!/^\s*\d+\s*$/.test(text)) throw new Error(`${label}: “${text}” is no whole number.`);
  return Number(text);
}

const SIZES = [
  ["GiB", 2 ** 30],
  ["MiB", 2 ** 20],
  ["KiB", 2 ** 10],
] as const;

/** 256 KiB, or a number of bytes. */
export function writeSize(bytes: number): string {
  for (const [unit, size] of SIZES) if (bytes >= size && bytes % size === 0) return `${bytes / size} ${unit}`;
  return String(bytes);
}

export function readSize(text: string, label: string): number {
  const [, number, unit] = /^\s*(\d+(?:\.\d+)?)\s*(B|KiB|MiB|GiB)?\s*$/i.exec(text) ?? [];
  if (number === undefined) throw new Error(`${label}: “${text}” is no size. Write 4096, 256 KiB or 2 MiB.`);
  const size = SIZES.find(([name]) => name.toLowerCase() === unit?.toLowerCase())?.[1] ?? 1;
  return Math.round(Number(number) * size);
}

interface StoredRate {
  max: number;
  per: number;
  pace: boolean;
  unit: string | null;
}

/** 100 per 1s, 90000 tokens per 1m paced */
export function writeRates(rates: readonly StoredRate[]): string {
  return rates
    .map(({ max, per, pace, unit }) =>
      [max, unit, "per", writeDuration(per), pace && "paced"].filter(Boolean).join(" "),
    )
    .join(", ");
}

export function readRates(text: string, label: string): Rate[] | null {
  return text.trim() === "" ? null : text.split(",").map((each) => readRate(each, label));
}

function readRate(text: string, label: string): Rate {
  const [, max, unit, per, paced] = /^\s*(\d+)(?:\s+(\S+))?\s+per\s+(\S+)(\s+paced)?\s*$/.exec(text) ?? [];
  if (max === undefined)
    throw new Error(`${label}: “${text.trim()}” is no rate. Write 100 per 1s, or 9000 tokens per 1m paced.`);
  return {
    ...{ max: Number(max), per: readTime(per!, label) },
    ...(paced !== undefined && { pace: true }),
    ...(unit !== undefined && { unit }),
  };
}

/** 22:00-06:00 Europe/London. The server checks both parts: it knows the time zones. */
export function readHours(text: string): Hours | string | null {
  const [hours = "", tz] = text.trim().split(/\s+/);
  if (hours === "") return null;
  return tz === undefined ? hours : { hours, tz };
}

/** acme 3, globex 2 */
export function writeWeights(weight: Record<string, number>): string {
  return Object.entries(weight)
    .map(([group, turns]) => `${group} ${turns}`)
    .join(", ");
}

export function readWeights(text: string, label: string): Record<string, number> | null {
  if (text.trim() === "") return null;
  return Object.fromEntries(
    text.split(",").map((each) => {
      const [, group, turns] = /^\s*(\S.*?)\s+(\d+)\s*$/.exec(each) ?? [];
      if (group === undefined)
        throw new Error(`${label}: “${each.trim()}” is no group with its turns. Write acme 3, globex 2.`);
      return [group, Number(turns)];
    }),
  );
}
