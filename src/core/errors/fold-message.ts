/**
 * Folds what varies in an error's message (ids, numbers, addresses, times, quoted values), and keeps what tells errors
 * apart (codes, HTTP status, names of columns and properties). For fingerprint.ts.
 */

/** Most characters that are read of a message: the rules look ahead, so their time must be bounded. */
const LONGEST = 1_000;

export function foldMessage(message: string): string {
  const text = firstLineOf(withoutJson(message)).slice(0, LONGEST);
  return text.replace(PARTS, (part, ...groups) => {
    const names = groups.at(-1) as Record<string, string | undefined>;
    const sign = SIGNS.find((name) => names[name] !== undefined);
    return sign === undefined ? part : `<${sign}>`;
  });
}

/** If the first line has no words, such as "[" of a list, all lines are joined. */
function firstLineOf(message: string): string {
  const first = message.split("\n", 1)[0]!;
  return /\p{L}/u.test(first) ? first : message.slice(0, LONGEST).replace(/\s+/g, " ");
}

// ── Parts of a message ──────────────────────────────────────────────────────────────────────────────────────

/** Numbers that are an HTTP status where one is expected. */
const STATUS = "(?:4(?:0\\d|1[0-8]|2[1-9]|31|51)|5(?:0\\d|1[01]|2\\d|30))";
const REASON =
  "Bad Request|Unauthorized|Payment Required|Forbidden|Not Found|Method Not|Conflict|Gone|Unprocessable|Too Many|" +
  "Internal Server|Bad Gateway|Service Unavailable|Gateway Time";
/** A quoted name after one of these words is part of the program or its schema, not a value. */
const NAMING =
  "reading|setting|for key|property|properties|constraint|column|relation|table|index|function|module|package|field|parameter|argument|command|operator";
const SUFFIX = "com|net|org|io|dev|ai|app|cloud|internal|local|localdomain|localhost|example|test";

/** Kept as they are. The first rule that matches at a place wins, so these come before the signs. */
const KEPT = [
  `\\b(?:status|HTTP/[\\d.]+|HTTP)(?: code| error)?[ :=]*\\d{3}\\b`,
  `\\b(?:exit|exited|error|response|status|return|result)?(?: with)? ?code[ :=]+[\\w-]+`,
  `\\b(?:errno|SQLSTATE|signal)[ :=\\[]+\\w+`,
  `(?<=^\\W{0,3})${STATUS}(?= [A-Za-z{])`,
  `(?<=\\b(?:failed|error|response|rejected|denied|returned|unavailable|with):? \\(?)${STATUS}\\b(?! ?(?:ms|s|rows|items|bytes)\\b)`,
  `\\b${STATUS}(?= (?:${REASON}))`,
  // Codes of databases, compilers and cloud services.
  `\\b(?:P\\d{4}|ORA-\\d{5}|E\\d{5}|TS\\d{4}|PGRST\\d{3}|NJS-\\d{3}|AADSTS\\d+)\\b`,
  // ECONNRESET, ERR_HTTP2_STREAM_ERROR
  `\\bE[A-Z]{3,}\\b|\\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\\b(?!\\w)`,
  `(?<=\\b(?:${NAMING}) )(?:"[\\w.$@/-]{1,60}"|'[\\w.$@-]{1,60}'|\`[\\w.$@-]{1,60}\`)(?<!\\d{4}.)`,
  // HTTP/2, utf8, base64, SHA256, Ed25519: names with a number
  `\\b(?:HTTP/\\d(?:\\.\\d)?|[Uu][Tt][Ff]-?\\d+|base(?:32|64)|[Ss][Hh][Aa]-?\\d+|OAuth ?2|TLSv?1\\.\\d|S3|EC2|IPv[46])\\b`,
];

const IPV4 = "\\d{1,3}(?:\\.\\d{1,3}){3}";
const IPV6 = "(?:(?:[0-9a-f]{1,4}:){2,7}[0-9a-f]{0,4}|::)(?::?[0-9a-f]{1,4}){0,7}";
const HOST = `(?:[A-Za-z0-9_-]+\\.)+(?:${SUFFIX})|localhost`;
/** "connect to port 5432", "connect to the database": these words are not names of hosts. */
const NO_HOST = "(?:a|an|any|database|host|its?|peer|port|proxy|remote|server|socket|the|this|upstream|your)";
const HOST_AFTER =
  "(?<=\\b(?:ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|host|hostname|connect to|server at) )" +
  `(?!${NO_HOST}\\b(?![.-]))[\\w.-]*[\\w]`;
const MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*";
const CLOCK = "\\d{1,2}:\\d{2}(?::\\d{2}(?:[.,]\\d+)?)?(?: ?(?:Z|UTC|GMT|[AP]M|[+-]\\d{2}:?\\d{2})+)?";
const UNIT = "(?:ms|µs|us|ns|s|sec|min|m|h|d|[kKMGTP]i?[bB]|[bB]|%|px)";

/** Replaced by their name in angle brackets. */
const FOLDED: Record<string, string> = {
  url: `\\b[a-z][a-z0-9+.-]{1,15}://[^\\s"'\`<>]+`,
  email: `[\\w.+-]+@[\\w-]+(?:\\.[\\w-]+)+`,
  id: [
    "\\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-fA-F]{12}\\b",
    "\\b[0-9A-F]{8}-[0-9A-F]{4}-[0-9A-F]{4}-[0-9A-F]{4}-[0-9A-F]{12}\\b",
    // cus_NffrFeUfNV2Hib, req-8f3a9c2d
    "\\b[A-Za-z]{1,8}[_-](?=[\\w-]*\\d)(?=[\\w-]*[A-Za-z])(?!\\d+\\b)[A-Za-z0-9_-]{6,}\\b",
    // Capitals, small letters and digits mixed, or letters between digits.
    "\\b(?=[a-zA-Z]*\\d)(?=[A-Z0-9]*[a-z])(?=[a-z0-9]*[A-Z])[A-Za-z0-9]{10,}\\b",
    "\\b(?=[a-z0-9]*\\d[a-z]+\\d)[a-z0-9]{9,}\\b",
    "\\b(?=[0-9a-f]*\\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\\b|\\b(?=[0-9A-F]*\\d)(?=[0-9A-F]*[A-F])[0-9A-F]{8,}\\b",
  ].join("|"),
  // The ' in "can't" neither opens nor closes a quotation.
  text: `"(?:[^"\\\\]|\\\\.)*"|(?<!\\w)'[^']*'(?!\\w)|\`[^\`]*\`|“[^”]*”|«[^»]*»|(?<=Unexpected token )\\S+`,
  time: [
    `\\b\\d{4}-\\d{2}-\\d{2}(?:[T ]${CLOCK})?`,
    `\\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? )?(?:\\d{1,2} ${MONTH}|${MONTH} \\d{1,2}),? \\d{4}(?:,? ${CLOCK}(?: \\([\\w ]+\\))?)?`,
    `\\b${CLOCK.replace("(?::\\d{2}(?:[.,]\\d+)?)?", ":\\d{2}(?:[.,]\\d+)?")}`,
  ].join("|"),
  address: `\\b${IPV4}(?::\\d+)?\\b|(?<![\\w:])\\[?${IPV6}\\]?(?::\\d+)?(?!\\w)|(?:${HOST_AFTER}|\\b(?:${HOST}))(?::\\d+)?|\\b[a-z][\\w-]*:\\d{2,5}\\b`,
  path: `(?<![\\w<>])(?:~|\\.{1,2})?/[\\w.@%+~-]+(?:/[\\w.@%+~:-]*)+|(?<=\\b(?:GET|POST|PUT|PATCH|DELETE|HEAD) )/\\S*|\\b[A-Z]:\\\\[^\\s"']+`,
  hex: `\\b0x[0-9a-fA-F]+\\b`,
  n: `(?<![\\w.])[-+]?\\d+(?:[.,:]\\d+)*(?:e[+-]?\\d+)?${UNIT}?\\b|\\d+(?:[.,:]\\d+)*`,
};

const SIGNS = Object.keys(FOLDED);
const PARTS = new RegExp(
  [...KEPT, ...Object.entries(FOLDED).map(([name, rule]) => `(?<${name}>${rule})`)].join("|"),
  "g",
);

// ── JSON in messages ────────────────────────────────────────────────────────────────────────────────────────

/** Fields of a JSON body that say what kind of error it is. */
const TELLING = ["status", "code", "type", "error", "name", "reason", "title", "path", "message", "detail"];

/** Services and validators put JSON into messages. It is replaced by its telling fields. */
function withoutJson(message: string): string {
  const start = /[[{]\s*[[{"]/.exec(message.slice(0, LONGEST * 8))?.index;
  if (start === undefined || message.length > LONGEST * 8) return message;
  const end = Math.max(message.lastIndexOf("}"), message.lastIndexOf("]")) + 1;
  try {
    const body: unknown = JSON.parse(message.slice(start, end));
    return `${message.slice(0, start)}${tell(body, 3)}${message.slice(end)}`;
  } catch {
    return message;
  }
}

function tell(value: unknown, depth: number): string {
  if (typeof value === "string" || typeof value === "number") return String(value);
  if (typeof value !== "object" || value === null || depth === 0) return "";
  // For a list of issues use the first one. A path is a list of names.
  if (Array.isArray(value)) {
    const isPath = value.every((each) => typeof each === "string" || typeof each === "number");
    return isPath ? value.join(".") : tell(value[0], depth);
  }
  const fields = value as Record<string, unknown>;
  const told = TELLING.filter((name) => Object.hasOwn(fields, name)).map((name) => {
    const text = tell(fields[name], depth - 1);
    return /^\d+$/.test(text) ? `${name === "status" ? "status" : "code"} ${text}` : text;
  });
  return told.filter((text) => text !== "").join(" ");
}
