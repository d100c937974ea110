import { z } from 'zod';

/** Which request a header tells about; no browser may send one of this name. */
export const ASKER_HEADER = 'mailkeep-asker';

const mailboxes = z.array(z.string()).readonly().nullable();
/** Of a node that runs a newer version, it may have more. */
const askerShape = z.object({
  /** How the browser reached the server at which it is signed in. */
  reached: z.object({ host: z.string(), origin: z.string(), secure: z.boolean() }),
  /** Of the browser; null where a token asks. */
  session: z
    .object({
      ...{ key: z.string(), createdAt: z.number(), usedAt: z.number(), agent: z.string() },
      mailboxes,
    })
    .nullable(),
  /** Of the API; null where a browser asks, or the token is none. */
  token: z
    .object({
      ...{ id: z.string(), name: z.string(), mailboxes },
      ...{ createdAt: z.number(), usedAt: z.number().nullable() },
      expiresAt: z.number().nullable(),
    })
    .nullable(),
});

/**
 * Who asks for something, as the server found that let them in. Where the archive is, this is believed: only a node of the
 * fleet can send it.
 */
export type RequestIdentity = z.output<typeof askerShape>;

/** Returns the header of an asker, in characters that every header may have. */
export function askerText(asker: RequestIdentity): string {
  return Buffer.from(JSON.stringify(asker)).toString('base64url');
}

/** @throws an error for a text of another shape */
export function askerOfText(text: string): RequestIdentity {
  return askerShape.parse(JSON.parse(Buffer.from(text, 'base64url').toString('utf8')));
}

/** Where whoever lets browsers in asks for the mailboxes of the archive. No address of a browser is handed on to it. */
export const MAILBOXES_PATH = '/-/mailboxes';

export const servedMailboxes = z.array(
  z.strictObject({ key: z.string(), address: z.string(), mailbox: z.string() }),
);
export type ServedMailboxes = z.output<typeof servedMailboxes>;
