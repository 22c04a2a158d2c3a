// Prints a client's types for the OpenAPI document on standard input, with `openapi-typescript`, as a user would run
// it.

import { registerHooks } from "node:module";
import { json } from "node:stream/consumers";

// openapi-typescript writes its output with the compiler API of TypeScript 5, which version 7 does not have. A second
// package "typescript" would replace the command `tsc`, so the API comes from a package that carries it inside.
registerHooks({
  resolve(specifier, context, next) {
    if (specifier !== "typescript") return next(specifier, context);
    const source = `export { ts as default } from ${JSON.stringify(import.meta.resolve("@ts-morph/common"))}`;
    return {
      url: `data:text/javascript,${encodeURIComponent(source)}`,
      format: "module",
      shortCircuit: true,
    };
  },
});

const { default: generate, astToString } = await import("openapi-typescript");
const document = (await json(process.stdin)) as never;
// As the guide says. Otherwise a field with a default counts as always present.
process.stdout.write(astToString(await generate(document, { defaultNonNullable: false })));
