import { Command } from "commander";
import { KINDS } from "../../server/scopes.ts";
import { Tokens, tokensPathOf } from "../../server/tokens.ts";
import { addressOf, print, printTable } from "../store.ts";

interface Flags {
  url?: string;
  tokens?: string;
  json?: boolean;
}

/** Tokens are in a file next to the store: anyone who can read that file needs no token. */
export function tokensCommand(): Command {
  const tokens = new Command("tokens").description("create, list and revoke the tokens of a server");
  tokens.addCommand(
    withFile(new Command("add").description("create a token; it is shown only once"))
      .argument("<name>", "the name of its owner")
      .requiredOption(
        "--scope <scope...>",
        `what it allows: ${KINDS.join(", ")} and a pattern of queues, such as work:emails or admin:*`,
      )
      .action((name: string, flags: Flags & { scope: string[] }) => {
        const { token, record } = open(flags).add(name, flags.scope);
        print(flags.json ? JSON.stringify({ token, id: record.id, name, scopes: record.scopes }) : token);
      }),
  );
  tokens.addCommand(
    withFile(new Command("ls").description("list the tokens, without their secrets")).action(
      (flags: Flags) => {
        const records = open(flags).list();
        const shown = records.map(({ id, name, scopes, createdAt }) => ({ id, name, scopes, createdAt }));
        if (flags.json) return print(JSON.stringify(shown));
        printTable(
          ["NAME", "ID", "SCOPES", "MADE"],
          shown.map(({ id, name, scopes, createdAt }) => [name, id, scopes.join(" "), createdAt]),
        );
      },
    ),
  );
  tokens.addCommand(
    withFile(new Command("revoke").description("revoke a token at once"))
      .argument("<name>", "its name or id")
      .action((name: string, flags: Flags) => {
        const { id } = open(flags).revoke(name);
        print(flags.json ? JSON.stringify({ revoked: id }) : `revoked ${id}`);
      }),
  );
  return tokens;
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
