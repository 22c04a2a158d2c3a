/** Lines of standard input or of a file, for commands that read JSON lines. */

const NEWLINE = 10;

/** The lines of each chunk as soon as it arrives: from a slow pipe, each line on its own. */
export async function* lineGroups(input: AsyncIterable<Uint8Array>): AsyncGenerator<string[], void> {
  let begun: Buffer[] = [];
  for await (const chunk of input) {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    const lines: string[] = [];
    let from = 0;
    for (let at = bytes.indexOf(NEWLINE); at >= 0; at = bytes.indexOf(NEWLINE, from)) {
      begun.push(bytes.subarray(from, at));
      lines.push(Buffer.concat(begun).toString("utf8"));
      begun = [];
      from = at + 1;
    }
    if (from < bytes.length) begun.push(Buffer.from(bytes.subarray(from)));
    if (lines.length > 0) yield lines;
  }
  if (begun.length > 0) yield [Buffer.concat(begun).toString("utf8")];
}
