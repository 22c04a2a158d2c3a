import { Command } from "commander";
import { KINDS } from "../../server/scopes.ts";
import { Tokens, tokensPathOf } from "../../server/tokens.ts";
import { type ConfirmFlags, confirm, withConfirmation } from "../confirm.ts";
import { notFound } from "../exit.ts";
import { didYouMean } from "../nearest.ts";
import { print, printJson, say } from "../output.ts";
import { show } from "../../core/errors/show.ts";
import { addressOf } from "../store.ts";
import { printTable } from "../table.ts";

// `dibs tokens`: adds, lists and revokes the tokens of a server, in its file.

interface Flags {
  url?: string;
  tokens?: string;
  json?: boolean;
}

/** Tokens are in a file next to the store: anyone who can read that file needs no token. */
export function tokensCommand(): Command {
  const tokens = new Command("tokens");
  tokens.addCommand(
    withFile(new Command("add").description("create a token; it is shown only once"))
      .argument("<name>", "the name of its owner")
      .requiredOption(
        "--scope <scope...>",
        `what it allows: ${KINDS.join(", ")} and a pattern of queues, such as work:emails or admin:*`,
      )
      .action((name: string, flags: Flags & { scope: string[] }) => {
        const { token, record } = open(flags).add(name, flags.scope);
        if (flags.json) printJson({ token, id: record.id, name, scopes: record.scopes });
        else print(token);
      }),
  );
  tokens.addCommand(
    withFile(new Command("ls").description("list the tokens, without their secrets")).action(
      (flags: Flags) => {
        const records = open(flags).list();
        const shown = records.map(({ id, name, scopes, createdAt }) => ({ id, name, scopes, createdAt }));
        if (flags.json) return printJson(shown);
        if (shown.length === 0) return say("There are no tokens. See dibs tokens add --help.");
        printTable(shown, [
          { head: "NAME", cell: ({ name }) => name },
          { head: "ID", cell: ({ id }) => id },
          { head: "SCOPES", cell: ({ scopes }) => scopes.join(" ") },
          { head: "MADE", cell: ({ createdAt }) => createdAt },
        ]);
      },
    ),
  );
  tokens.addCommand(
    withConfirmation(withFile(new Command("revoke").description("revoke a token at once")))
      .argument("<name>", "its name or id")
      .action(revoke),
  );
  return tokens;
}

async function revoke(name: string, flags: Flags & ConfirmFlags): Promise<void> {
  const tokens = open(flags);
  const records = tokens.list();
  const found = records.find((each) => each.name === name || each.id === name);
  if (!found) {
    const near = didYouMean(
      name,
      records.map((each) => each.name),
    );
    throw notFound(`There is no token ${show(name)}.${near} See dibs tokens ls.`);
  }
  const { id, scopes } = found;
  const what = `Revoke the token ${found.name} (${id}), which allows ${scopes.join(" ")}`;
  const isReal = await confirm(what, flags);
  if (isReal) tokens.revoke(id);
  if (flags.json) printJson({ revoked: id, ...(!isReal && { dryRun: true }) });
  else if (isReal) print(`revoked ${id}`);
}

function withFile(command: Command): Command {
  return command
    .option("--url <url>", "the store that they belong to (DIBS_URL, or ./dibs.db)")
    .option("--tokens <path>", "their file, if the server uses another one (DIBS_TOKENS)")
    .option("--json", "print for programs");
}

function open({ url, tokens }: Flags): Tokens {
  return new Tokens(
    tokensPathOf({ url: addressOf(url), tokens: tokens ?? (process.env["DIBS_TOKENS"] || null) }),
  );
}
