import { Pool } from 'undici';
import type { ToolRequest } from './tool-schemas.ts';

/** What the mailbox surface answered. */
export interface Forwarded {
  readonly status: number;
  readonly contentType: string;
  readonly bytes: Buffer;
}

export type Forward = (request: ToolRequest, authorization: string) => Promise<Forwarded>;

/** A client has to hold the answer as one JSON text: more than this is no answer for it. */
export const MOST_ANSWER_BYTES = 16 * 1024 * 1024;

/** Thrown for an answer of more than `MOST_ANSWER_BYTES`. */
export class AnswerTooLarge extends Error {}

/**
 * Sends requests to the mailbox surface as any client would, with the caller's own token: rights, limits,
 * faults and the request log are those of the surface, and nothing else is reached.
 */
export function openForward(baseUrl: string): {
  readonly forward: Forward;
  close(): Promise<void>;
} {
  const pool = new Pool(baseUrl, { connections: 8 });
  return {
    forward: async ({ method, path, body }, authorization) => {
      const answer = await pool.request({
        method,
        path,
        headers: { 'content-type': 'application/json', authorization },
        ...(body === null ? {} : { body }),
      });
      const chunks: Buffer[] = [];
      let length = 0;
      for await (const chunk of answer.body) {
        if (!Buffer.isBuffer(chunk)) continue;
        length += chunk.length;
        if (length > MOST_ANSWER_BYTES) throw new AnswerTooLarge();
        chunks.push(chunk);
      }
      return {
        status: answer.statusCode,
        contentType: String(answer.headers['content-type'] ?? ''),
        bytes: Buffer.concat(chunks, length),
      };
    },
    close: () => pool.destroy(),
  };
}
