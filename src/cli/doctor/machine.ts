import { isOlder } from "../../core/process/version.ts";
import { type Finding, ok, warning } from "./finding.ts";

/** Checks of this machine and its environment, whatever store is used. An unsupported Node does not get this far. */
export function checkMachine(address: string, given: string | undefined): Finding[] {
  return [checkNode(), checkAddress(address, given), ...checkToken(address)];
}

/** Tests run on this version. */
const TESTED_NODE = "24.0.0";

function checkNode(): Finding {
  const { node } = process.versions;
  if (!isOlder(node, TESTED_NODE)) return ok("node", `Node ${node}.`);
  return warning("node", `Node ${node} works, and dibs is tested on 24.`, "Update Node when you can.");
}

function checkAddress(address: string, given: string | undefined): Finding {
  if (given !== undefined) return ok("address", `${address}, from --url.`);
  if (process.env["DIBS_URL"]) return ok("address", `${address}, from DIBS_URL.`);
  return ok("address", `${address}, because neither --url nor DIBS_URL is set.`);
}

function checkToken(address: string): Finding[] {
  const { DIBS_TOKEN: token, DIBS_TOKEN_FILE: file } = process.env;
  const isServer = /^(?:http|ws)s?:/i.test(address);
  if (token && file)
    return [
      warning(
        "token",
        "DIBS_TOKEN and DIBS_TOKEN_FILE are both set, and DIBS_TOKEN is used.",
        "Unset one of them.",
      ),
    ];
  if (isServer && !token && !file) return [ok("token", "No token is set.")];
  return [];
}
