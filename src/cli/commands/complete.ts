import { Command } from "commander";
import { complete } from "../complete.ts";
import { print } from "../output.ts";

/** What the scripts of `dibs completion` call. Not in the help, because people do not type it. */
export function completeCommand(): Command {
  return new Command("complete")
    .argument("[words...]", "the words after dibs, up to the cursor")
    .action(async (words: string[]) => {
      for (const each of await complete(words)) print(each);
      // A store that does not answer must not keep the shell waiting.
      process.exit();
    });
}
