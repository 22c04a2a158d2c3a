import { about, AmqpError, octets } from "./errors.ts";
import { type Method, type Plan, planWith } from "./methods.ts";

/** Reads the payload of a method frame by the table in methods.ts. */
export function readMethod(payload: Buffer): { plan: Plan; method: Method } {
  if (payload.length < 4) throw new AmqpError("FRAME_ERROR", "a method frame ends before its method");
  const classId = payload.readUInt16BE(0);
  const methodId = payload.readUInt16BE(2);
  const plan = planWith(classId, methodId);
  if (!plan) throw new AmqpError("NOT_IMPLEMENTED", `unknown method ${classId}.${methodId}`);
  const args: Record<string, unknown> = {};
  const { fields } = plan;
  let at = 4;
  let bits = 0;
  let bit = 8;
  const need = (count: number): number => {
    const from = at;
    at += count;
    if (at > payload.length) throw cannotDecode(plan, payload);
    return from;
  };
  for (let index = 0; index < fields.length; index++) {
    const [name, type] = fields[index]!;
    if (type === "bit") {
      if (bit > 7) {
        bits = payload[need(1)]!;
        bit = 0;
      }
      args[name] = ((bits >> bit++) & 1) === 1;
      continue;
    }
    bit = 8;
    switch (type) {
      case "octet":
        args[name] = payload[need(1)];
        break;
      case "short":
        args[name] = payload.readUInt16BE(need(2));
        break;
      case "long":
        args[name] = payload.readUInt32BE(need(4));
        break;
      case "longlong": {
        const from = need(8);
        // Delivery tags count the messages of one channel. No channel reaches 2^53, so a larger tag is unknown, exact or not.
        args[name] = payload.readUInt32BE(from) * 0x1_0000_0000 + payload.readUInt32BE(from + 4);
        break;
      }
      case "shortstr": {
        const length = payload[need(1)]!;
        const from = need(length);
        args[name] = payload.toString("utf8", from, at);
        break;
      }
      case "longstr":
      case "table": {
        const length = payload.readUInt32BE(need(4));
        const from = need(length);
        args[name] = payload.subarray(from, at);
        break;
      }
    }
  }
  if (at !== payload.length) throw cannotDecode(plan, payload);
  return { plan, method: { name: plan.name, args } as unknown as Method };
}

function cannotDecode({ classId, methodId }: Plan, payload: Buffer): AmqpError {
  const error = new AmqpError("FRAME_ERROR", `cannot decode ${octets(payload.subarray(4))}`);
  return about(error, [classId, methodId]);
}
