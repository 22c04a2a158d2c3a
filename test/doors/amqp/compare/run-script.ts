import { Conversation, type Script } from "./conversation.ts";

/** The record of one script against one server. With the expected record, waits are for its lines. */
export async function runScript(url: string, script: Script, expected?: string[]): Promise<string[]> {
  const talk = new Conversation(url, expected);
  try {
    await script(talk);
  } catch (error) {
    talk.note(`failed: ${(error as Error).message}`);
  }
  return talk.finish();
}
