// All scripts, by theme. Each theme has its own file of recorded answers.

import type { Script } from "../conversation.ts";
import { connections } from "./connections.ts";
import { consuming } from "./consuming.ts";
import { deadLetters, limits } from "./dead-letters.ts";
import { declare, remove } from "./declare.ts";
import { exchanges } from "./exchanges.ts";
import { publishing } from "./publishing.ts";
import { replies } from "./replies.ts";
import { routing } from "./routing.ts";
import { settling } from "./settling.ts";

export const THEMES: Record<string, Record<string, Script>> = {
  connections,
  declare: { ...declare, ...remove },
  exchanges,
  routing,
  publishing,
  consuming,
  settling,
  "dead-letters": deadLetters,
  limits,
  replies,
};
