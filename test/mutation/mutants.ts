// Finds the mutants of a source: small changes, each of which some test should notice. `run.ts` runs the tests on them.

import { parseSync, Visitor } from "vite";

export interface Mutant {
  file: string;
  /** What kind of change it is: a word for the table of results. */
  kind: string;
  line: number;
  start: number;
  end: number;
  replacement: string;
}

const COMPARISONS: Record<string, string> = {
  "<": "<=",
  "<=": "<",
  ">": ">=",
  ">=": ">",
  "===": "!==",
  "!==": "===",
};
const ARITHMETIC: Record<string, string> = {
  "+": "-",
  "-": "+",
  "*": "/",
  "/": "*",
  "%": "*",
  "+=": "-=",
  "-=": "+=",
};
const OPPOSITES: Record<string, string> = { min: "max", max: "min", some: "every", every: "some" };

export function findMutants(file: string, source: string): Mutant[] {
  const { program, errors } = parseSync(file, source, { lang: "ts" });
  if (errors[0] !== undefined) throw new SyntaxError(`${file}: ${errors[0].message}`);
  const mutants: Mutant[] = [];
  const add = (kind: string, { start, end }: Range, replacement: string): void => {
    const line = source.slice(0, start).split("\n").length;
    mutants.push({ file, kind, line, start, end, replacement });
  };
  const textOf = ({ start, end }: Range): string => source.slice(start, end);
  /** Where the operator between two operands stands. */
  const between = (left: Range, right: Range, operator: string): Range => {
    const start = source.indexOf(operator, left.end);
    return start < right.start ? { start, end: start + operator.length } : { start: left.end, end: left.end };
  };
  const negate = (test: Node | null): void => {
    if (test !== null && !isEquality(test)) add("condition", test, `!(${textOf(test)})`);
  };
  const drop = (statement: Node): void => add("statement", statement, "{}");
  const empty = (body: Node | null): void => {
    if (body?.type === "BlockStatement" && body.body.length > 1 && !/\breturn\s*[^;\s]/.test(textOf(body)))
      add("body", body, "{}");
  };
  const operator = (kind: string, table: Record<string, string>, node: Binary): void => {
    const other = table[node.operator];
    if (other !== undefined) add(kind, between(node.left, node.right, node.operator), other);
  };
  const types = new Set<Node>();
  const sql = (node: Range): void => {
    for (const { kind, start, end, replacement } of findSqlMutants(textOf(node)))
      add(kind, { start: node.start + start, end: node.start + end }, replacement);
  };

  new Visitor({
    TSLiteralType: ({ literal }) => void types.add(literal),
    IfStatement: ({ test }) => negate(test),
    ConditionalExpression: ({ test }) => negate(test),
    WhileStatement: ({ test }) => negate(test),
    ForStatement: ({ test }) => negate(test),
    BinaryExpression: (node) => {
      operator("comparison", COMPARISONS, node);
      if (!isText(node.left) && !isText(node.right)) operator("arithmetic", ARITHMETIC, node);
    },
    AssignmentExpression: (node) => {
      if (!isText(node.right)) operator("arithmetic", ARITHMETIC, node);
    },
    LogicalExpression: (node) => {
      if (node.operator === "??") add("default", { start: node.left.end, end: node.end }, "");
      else operator("logical", { "&&": "||", "||": "&&" }, node);
    },
    Literal: (node) => {
      if (types.has(node)) return;
      if (typeof node.value === "boolean") add("boolean", node, String(!node.value));
      if (typeof node.value === "number") add("number", node, String(changed(node.value)));
      if (typeof node.value === "string") sql(node);
    },
    TemplateLiteral: sql,
    MemberExpression: ({ property }) => {
      const other = property.type === "Identifier" ? OPPOSITES[property.name] : undefined;
      if (other !== undefined) add("opposite", property, other);
    },
    ExpressionStatement: (node) => {
      if (!("directive" in node) || node.directive === null) drop(node);
    },
    ThrowStatement: drop,
    ContinueStatement: drop,
    BreakStatement: drop,
    FunctionDeclaration: ({ body }) => empty(body),
    FunctionExpression: ({ body }) => empty(body),
    ArrowFunctionExpression: ({ body }) => empty(body),
  }).visit(program);
  return mutants.filter(({ start, end, replacement }) => source.slice(start, end) !== replacement);
}

/** A limit that is one higher is rarely seen, one that is twice as high is. */
function changed(value: number): number {
  return value < 10 ? value + 1 : value * 2;
}

/** Its operator is a comparison, which is negated by itself. */
function isEquality(node: Node): boolean {
  return node.type === "BinaryExpression" && /^[!=]==$/.test(node.operator);
}

function isText(node: Node): boolean {
  return node.type === "TemplateLiteral" || (node.type === "Literal" && typeof node.value === "string");
}

const CONDITION = String.raw`(?:\$\{[^}]*\}|\([^()]*\)|[^()\n\`"])+?`;
const CLAUSE_ENDS = String.raw`(?=\s+(?:AND|OR|ORDER|GROUP|LIMIT|RETURNING|UNION|ON|THEN|END)\b|\s*[\n)\`"])`;

/** Within the text of a statement: bounds, conditions that always hold (with their parameters), and the other order. */
function findSqlMutants(text: string): Pick<Mutant, "kind" | "start" | "end" | "replacement">[] {
  if (!/\b(SELECT|UPDATE|DELETE|INSERT|WHERE|AND|ORDER BY)\b/.test(text)) return [];
  const replace = (kind: string, pattern: RegExp, by: (match: string) => string) =>
    text.matchAll(pattern).map(({ index, 0: match }) => ({
      kind,
      start: index,
      end: index + match.length,
      replacement: by(match),
    }));
  return [
    ...replace("SQL bound", /(?<=\s)[<>]=?(?=\s)/g, (match) => COMPARISONS[match]!),
    ...replace(
      "SQL condition",
      new RegExp(String.raw`(?<=\bAND )${CONDITION}${CLAUSE_ENDS}`, "g"),
      (match) => `(${match} OR 1)`,
    ),
    ...replace("SQL order", /\bDESC\b/g, () => ""),
    ...replace(
      "SQL order",
      new RegExp(String.raw`\bORDER BY [\w.]+(?! DESC|[\w.])`, "g"),
      (match) => `${match} DESC`,
    ),
  ];
}

type Range = { start: number; end: number };
type Node = ReturnType<typeof parseSync>["program"]["body"][number] | Expression;
type Expression = Parameters<NonNullable<Visitors["ConditionalExpression"]>>[0]["test"];
type Binary = { operator: string; left: Range; right: Range };
type Visitors = ConstructorParameters<typeof Visitor>[0];
