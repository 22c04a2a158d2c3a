import { connect } from "amqplib";

/** The server of the examples: AMQP_URL, or the one on this machine. */
export const connection = await connect(process.env["AMQP_URL"] ?? "amqp://guest:guest@localhost");
