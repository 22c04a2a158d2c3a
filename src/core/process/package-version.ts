import manifest from "../../../package.json" with { type: "json" };

/** The version of this dibs. The build puts it into the bundle, which may run far from the package. */
export const VERSION: string = manifest.version;
