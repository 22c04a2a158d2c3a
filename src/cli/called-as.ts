/** How `dibs` is called here, for lines that people copy: from a clone, the sources run, and `./dibs` runs them. */
export const DIBS = import.meta.url.endsWith(".ts") ? "./dibs" : "dibs";
