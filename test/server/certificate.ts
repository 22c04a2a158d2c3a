import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

/** A self-signed certificate for localhost, and its key. */
export async function makeCertificate(): Promise<{ cert: Buffer; key: Buffer }> {
  const folder = await mkdtemp(join(tmpdir(), "dibs-certificate-"));
  try {
    const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "key.pem"];
    const args = ["req", "-x509", "-days", "2", ...key, "-out", "cert.pem", "-subj", "/CN=localhost"];
    await promisify(execFile)("openssl", args, { cwd: folder });
    return {
      cert: await readFile(join(folder, "cert.pem")),
      key: await readFile(join(folder, "key.pem")),
    };
  } finally {
    await rm(folder, { recursive: true });
  }
}
