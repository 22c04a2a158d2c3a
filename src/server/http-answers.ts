import type { ServerResponse } from "node:http";
import type { AnswerBudget, ClientAnswers, Room } from "../core/answer/answer-budget.ts";

/**
 * Limits the memory of answers over HTTP. A client is a token at an address: opening more connections gives it no more
 * room.
 */
export class HttpAnswers {
  readonly #budget: AnswerBudget;
  readonly #clients = new Map<string, ClientAnswers>();

  constructor(budget: AnswerBudget) {
    this.#budget = budget;
  }

  /**
   * For one request. The reserved room is held until its answer has been handed to the network, or its client is gone.
   */
  reserverFor(
    name: string,
    response: ServerResponse,
  ): (bytes: number, signal: () => AbortSignal) => Promise<Room> {
    return async (bytes, signal) => {
      const client = this.#clients.get(name) ?? this.#budget.client();
      this.#clients.set(name, client);
      const forget = (): void => {
        if (client.isIdle) this.#clients.delete(name);
      };
      try {
        const room = client.reserveNow(bytes) ?? (await client.reserve(bytes, signal()));
        const giveBack = (): void => {
          room.giveBack();
          forget();
        };
        if (response.closed) giveBack();
        else response.once("close", giveBack);
        return room;
      } catch (error) {
        forget();
        throw error;
      }
    };
  }
}
