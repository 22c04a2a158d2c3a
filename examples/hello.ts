import { open } from "../src/index.ts";

interface Email {
  to: string;
}

await using dibs = await open("work.db");
const emails = dibs.queue<Email, string>("emails");

emails.work(async (task) => {
  return `sent to ${task.data.to} on attempt ${task.attempt}`;
});

const task = await emails.add({ to: "ada@example.com" });
console.log(await task.result({ timeout: "10s" }));
