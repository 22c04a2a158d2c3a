// The caller's transactions, with each library that people use for PostgreSQL.

import { conformance } from "./suite/index.ts";
import { LIBRARIES } from "../postgres/libraries.ts";
import { dropAfterAll, postgresWith } from "./postgres-harness.ts";

dropAfterAll();
for (const [name, begin] of Object.entries(LIBRARIES)) {
  conformance(`PostgreSQL with ${name}`, postgresWith(begin), ["transactions"]);
}
