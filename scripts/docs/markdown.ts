// What the site needs to know about Markdown: where its links are, and how its headings are called in addresses.

/** Fences and inline code, which have no links. */
const CODE = /^( *)(`{3,}|~{3,})[^\n]*\n[\s\S]*?^\1\2[^\n]*$|`+[^`\n]*`+/gm;

/** Targets of links, images and `src` attributes. */
const TARGET = /(\]\(|\b(?:src|srcset|href)=")([^)"\s]+)/g;

/** Calls `change` with each part of the text that is not code, and puts the parts together again. */
export function outsideCode(text: string, change: (part: string) => string): string {
  let result = "";
  let end = 0;
  for (const match of text.matchAll(CODE)) {
    result += change(text.slice(end, match.index)) + match[0];
    end = match.index + match[0].length;
  }
  return result + change(text.slice(end));
}

/** Replaces the targets that lead to other files or to headings; addresses of other sites stay. */
export function replaceTargets(text: string, replace: (target: string) => string): string {
  return outsideCode(text, (part) =>
    part.replaceAll(TARGET, (match, before: string, target: string) =>
      /^[a-z]+:/.test(target) ? match : before + replace(target),
    ),
  );
}

/** The name of a heading in an address, as code hosts make it, so that one link works there and on the site. */
export function slugOf(heading: string): string {
  return heading
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
    .replaceAll(/\s/g, "-");
}

export function slugsOf(text: string): Set<string> {
  const withoutFences = text.replaceAll(/^( *)(`{3,}|~{3,})[^\n]*\n[\s\S]*?^\1\2[^\n]*$/gm, "");
  const slugs = new Set<string>();
  for (const [, heading = ""] of withoutFences.matchAll(/^#{1,6} +(.+)$/gm)) {
    const slug = slugOf(heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1"));
    let name = slug;
    for (let count = 1; slugs.has(name); count++) name = `${slug}-${count}`;
    slugs.add(name);
  }
  return slugs;
}
