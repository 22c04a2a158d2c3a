// Checks the samples in deploy/: dibs must accept their settings, and a server must answer their requests.

import { execFileSync, spawnSync } from "node:child_process";
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { openPort } from "../../src/api/open.ts";
import { addCommand } from "../../src/cli/commands/add.ts";
import { serveCommand } from "../../src/cli/commands/serve.ts";
import { tokensCommand } from "../../src/cli/commands/tokens.ts";
import { parseDuration } from "../../src/core/time/duration.ts";
import { Access } from "../../src/server/access.ts";
import { type Config, resolveConfig } from "../../src/server/config.ts";
import { Tokens } from "../../src/server/tokens.ts";
import { startServer } from "../server/start.ts";

const root = join(import.meta.dirname, "../..");
const read = (path: string): string => readFileSync(join(root, "deploy", path), "utf8");

type Document = Record<string, never> & { kind?: string };

/** Refuses what is not YAML, and duplicate keys, which YAML parsers treat differently. */
function documentsOf(path: string): Document[] {
  return parseAllDocuments(read(path), { strict: true, uniqueKeys: true }).map((document) => {
    expect({ path, wrong: [...document.errors, ...document.warnings] }).toEqual({ path, wrong: [] });
    return document.toJS() as Document;
  });
}

const kinds = new Map(
  ["kubernetes/server.yaml", "kubernetes/workers.yaml"].flatMap((path) =>
    documentsOf(path).map((document) => [`${path} ${document.kind}`, document] as const),
  ),
);
const server = kinds.get("kubernetes/server.yaml Deployment")! as never as {
  spec: { template: { spec: PodSpec } };
};
interface PodSpec {
  enableServiceLinks?: boolean;
  terminationGracePeriodSeconds: number;
  containers: {
    lifecycle: { preStop: { exec: { command: string[] } } };
    args: string[];
    env: { name: string; value: string }[];
    readinessProbe: { httpGet: { path: string } };
    livenessProbe: { httpGet: { path: string } };
  }[];
}
const [container] = server.spec.template.spec.containers as [PodSpec["containers"][0]];

/** The configuration that `dibs serve` would get from these words. */
function configOf(words: string[], env: NodeJS.ProcessEnv = {}): Config {
  expect(words[0]).toBe("serve");
  const command = serveCommand().exitOverride();
  let flags = {};
  command.action((given: object) => {
    flags = given;
  });
  command.parse(words.slice(1), { from: "user" });
  return resolveConfig(flags, env).config;
}

async function serveWithTokens() {
  const folder = mkdtempSync(join(tmpdir(), "dibs-deploy-"));
  const tokens = new Tokens(join(folder, "tokens.json"));
  const store = await openPort(":memory:", {});
  const started = await startServer(store, { access: new Access(tokens, { letAnyoneIn: false }) });
  onTestFinished(async () => {
    await started.close();
    await store.close();
    rmSync(folder, { recursive: true });
  });
  return { tokens, store, url: started.url };
}

test("the systemd unit is valid, and its flags are known", ({ skip }) => {
  const unit = read("dibs.service");
  const words = /^ExecStart=\/usr\/bin\/env dibs (.*)$/m.exec(unit)![1]!.split(" ");
  const { drain } = configOf(words);
  const patience = parseDuration(/^TimeoutStopSec=(\S+)$/m.exec(unit)![1]!, "TimeoutStopSec");
  expect(patience).toBeGreaterThan(drain);
  const verified = spawnSync("systemd-analyze", ["verify", join(root, "deploy/dibs.service")], {
    encoding: "utf8",
  });
  skip(verified.error !== undefined, "needs systemd-analyze");
  expect(verified.stderr.split("\n").filter((line) => line.includes("dibs.service"))).toEqual([]);
});

describe("container samples", () => {
  const image = read("Dockerfile");
  const variables = Object.fromEntries(
    [...image.matchAll(/(DIBS_[A-Z_]+)=(\S+)/g)].map(([, name, value]) => [name!, value!]),
  );

  test("the containers use known settings, and have time to stop", () => {
    expect(/^ENTRYPOINT (.*)$/m.exec(image)![1]).toBe('["dibs"]');
    const words = JSON.parse(/^CMD (\["serve".*)$/m.exec(image)![1]!) as string[];
    expect(configOf(words, variables)).toMatchObject({ host: "0.0.0.0", url: "./dibs.db", port: 7411 });
    // Where the volume is.
    expect(/^WORKDIR (.*)$/gm.exec(image.split(/^FROM /m).at(-1)!)![1]).toBe(
      /^VOLUME (.*)$/m.exec(image)![1],
    );
    const [compose] = documentsOf("compose.yaml") as never as [
      {
        services: {
          dibs: { command: string[]; environment: NodeJS.ProcessEnv; stop_grace_period: string };
        };
      },
    ];
    const { command, environment, stop_grace_period } = compose.services.dibs;
    const config = configOf(command, { ...variables, ...environment });
    expect(config.allowHost).toEqual(["dibs"]);
    expect(parseDuration(stop_grace_period, "stop_grace_period")).toBeGreaterThan(config.drain);
  });

  test("the cluster samples use known settings, too", async () => {
    const folder = mkdtempSync(join(tmpdir(), "dibs-deploy-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const secret = join(folder, "url");
    writeFileSync(secret, "postgres://dibs@postgres/dibs\n");
    const given = container.env.map(({ name, value }) => [name, name.endsWith("_FILE") ? secret : value]);
    // The environment of a pod: the image's, its own, and the variables that Kubernetes adds for the service.
    const isLinked = server.spec.template.spec.enableServiceLinks !== false;
    const links = isLinked ? { DIBS_PORT: "tcp://10.0.0.7:7411" } : {};
    const config = configOf(container.args, { ...variables, ...Object.fromEntries(given), ...links });
    expect(config).toMatchObject({ url: "postgres://dibs@postgres/dibs", port: 7411 });
    expect(config.allowHost).toContain("dibs.default.svc.cluster.local");
    const sleep = Number(container.lifecycle.preStop.exec.command[1]);
    expect((server.spec.template.spec.terminationGracePeriodSeconds - sleep) * 1_000).toBeGreaterThan(
      config.drain,
    );
    const { url } = await serveWithTokens();
    for (const { httpGet } of [container.readinessProbe, container.livenessProbe])
      expect((await fetch(url + httpGet.path)).status).toBe(200);
  });
});

test("KEDA finds the queue depth at the configured path, with the least rights", async () => {
  const scaled = kinds.get("kubernetes/workers.yaml ScaledObject") as never as {
    spec: { triggers: { type: string; metadata: Record<string, string> }[] };
  };
  const { tokens, store, url } = await serveWithTokens();
  await store.add(Array.from({ length: 3 }, () => ({ queue: "emails", data: "1" })));
  await store.claim({ queues: ["emails"], max: 1, worker: "w", wait: 0 });
  const name = kinds.get("kubernetes/server.yaml Service") as never as { metadata: { name: string } };
  const scope = /dibs tokens add keda --scope (\S+)/.exec(read("README.md"))![1]!;
  const { token } = tokens.add("keda", [scope]);
  const found = scaled.spec.triggers.map(async ({ type, metadata }) => {
    expect([type, metadata["authMode"]]).toEqual(["metrics-api", "bearer"]);
    expect(Number(metadata["targetValue"])).toBeGreaterThan(0);
    const asked = new URL(metadata["url"]!);
    expect(asked.hostname.split(".")[0]).toBe(name.metadata.name);
    const answer = await fetch(url + asked.pathname, { headers: { authorization: `Bearer ${token}` } });
    // A path as gjson walks it: names separated by dots.
    let value: unknown = await answer.json();
    for (const part of metadata["valueLocation"]!.split("."))
      value = (value as Record<string, unknown>)[part];
    return value;
  });
  // Waiting and running tasks: without either, no workers are needed.
  expect(await Promise.all(found)).toEqual([2, 1]);
});

test("every flag and variable in the samples is known", () => {
  const known = [serveCommand(), addCommand(), ...tokensCommand().commands].map((command) =>
    command.helpInformation({ error: false }),
  );
  const help = known.join("\n");
  for (const path of globSync("deploy/**", { cwd: root, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))) {
    const text = readFileSync(path, "utf8");
    for (const [variable] of text.matchAll(/DIBS_[A-Z_]+/g))
      expect(help + "DIBS_TOKEN", `${variable} in ${path}`).toContain(variable.replace(/_FILE$/, ""));
    for (const [, words] of text.matchAll(/\bdibs ((?:serve|tokens|add) [^\n#]*)/g))
      for (const [flag] of words!.matchAll(/--[a-z-]+/g)) expect(help, `${flag} in ${path}`).toContain(flag);
  }
});

test("shell lines in the guide are valid shell", () => {
  for (const [, block] of read("README.md").matchAll(/^```sh\n([^]*?)^```$/gm))
    execFileSync("bash", ["-n", "-c", block!]);
});
