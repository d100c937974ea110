import { timingSafeEqual } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { ZodError, z } from 'zod';
import { envelope, invalid, problemsByField, Refusal } from '../../mailbox-surface/refusal.ts';
import { dataReply, NO_CONTENT, type Reply } from '../../mailbox-surface/reply.ts';
import type { ServiceState } from '../service-state.ts';
import type { Folder } from '../store/folder.ts';
import type { Mailbox } from '../store/mailbox.ts';
import type { Faults } from './faults.ts';
import type { Surface } from './listener.ts';
import { deliver, findMailbox } from './outside-changes.ts';
import { readJsonBody } from './request-body.ts';
import type { RequestLog } from './request-log.ts';
import { sendReply } from './send-reply.ts';

const place = { mailbox: z.string(), folder: z.string().default('INBOX') };

const deliverBody = z.object({
  ...place,
  /** The raw source as text; `base64` for one that is no UTF-8. */
  source: z.string().optional(),
  base64: z.base64().optional(),
  flags: z.array(z.string()).default([]),
  /** ISO 8601; now where it is left out. */
  received: z.iso.datetime({ offset: true }).optional(),
});

const changeBody = z.discriminatedUnion('action', [
  z.object({ action: z.literal('delete'), uids: z.array(z.int().min(1)), ...place }),
  z.object({ action: z.literal('move'), uids: z.array(z.int().min(1)), to: z.string(), ...place }),
  z.object({ action: z.literal('copy'), uids: z.array(z.int().min(1)), to: z.string(), ...place }),
  z.object({
    action: z.literal('flags'),
    uids: z.array(z.int().min(1)),
    add: z.array(z.string()).default([]),
    remove: z.array(z.string()).default([]),
    ...place,
  }),
  z.object({ action: z.literal('renumber'), firstUid: z.int().min(1).default(1), ...place }),
]);

const standingBody = z.object({ mailbox: z.string(), status: z.enum(['active', 'suspended']) });

const tokenBody = z.discriminatedUnion('surface', [
  z.object({
    surface: z.literal('mailbox'),
    token: z.string().min(8),
    orderId: z.string(),
    mailboxes: z.array(z.string()).nullable().default(null),
    expiresAt: z.iso.datetime({ offset: true }).nullable().default(null),
  }),
  z.object({
    surface: z.literal('platform'),
    token: z.string().min(8),
    userId: z.string(),
    expiresAt: z.iso.datetime({ offset: true }).nullable().default(null),
  }),
]);

const MAX_BODY_BYTES = 256 * 1024 * 1024;

/**
 * The control endpoint of tests and demonstrations, at `/control/…`, with a token of its own: request counts,
 * faults, mail from outside, changes behind a client's back, tokens. No part of the service's interface.
 */
export class ControlSurface implements Surface {
  readonly prefix = '/control/';
  readonly refusal = envelope;
  readonly #token: Buffer;

  constructor(
    private readonly service: ServiceState,
    private readonly faults: Faults,
    private readonly log: RequestLog,
    token: string,
  ) {
    this.#token = Buffer.from(`Bearer ${token}`);
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    this.#answer(request).then(
      (reply) => sendReply(response, reply),
      (error: unknown) =>
        sendReply(
          response,
          envelope(error instanceof ZodError ? invalid(problemsByField(error.issues)) : error),
        ),
    );
  }

  async #answer(request: IncomingMessage): Promise<Reply> {
    const given = Buffer.from(request.headers.authorization ?? '');
    if (given.length !== this.#token.length || !timingSafeEqual(given, this.#token)) {
      throw new Refusal(401, 'ERR_UNAUTHORIZED', 'The control token is missing or wrong');
    }
    const path = (request.url ?? '').split('?', 1)[0] ?? '';
    switch (`${request.method} ${path}`) {
      case 'GET /control/requests':
        return dataReply({ ...this.log.counts(), last: this.log.last() });
      case 'DELETE /control/requests':
        this.log.reset();
        return NO_CONTENT;
      case 'GET /control/faults':
        return dataReply(this.faults.list());
      case 'POST /control/faults':
        return dataReply({ id: this.faults.add(await body(request)) }, 201);
      case 'DELETE /control/faults':
        this.faults.clear();
        return NO_CONTENT;
      case 'POST /control/deliver':
        return this.#deliver(deliverBody.parse(await body(request)));
      case 'POST /control/change':
        return this.#change(changeBody.parse(await body(request)));
      case 'POST /control/standing': {
        const standing = standingBody.parse(await body(request));
        const { mailbox } = this.#place({ mailbox: standing.mailbox, folder: 'INBOX' });
        this.service.standings.setStatus(mailbox, standing.status);
        return NO_CONTENT;
      }
      case 'POST /control/tokens':
        return this.#putToken(tokenBody.parse(await body(request)));
      case 'POST /control/tokens/revoke': {
        const { token } = z.object({ token: z.string() }).parse(await body(request));
        this.service.tokens.revoke(token, this.service.now());
        return NO_CONTENT;
      }
      default:
        throw new Refusal(404, 'ERR_NOT_FOUND', 'There is no such route');
    }
  }

  #deliver(mail: z.output<typeof deliverBody>): Reply {
    const { mailbox, folder } = this.#place(mail);
    const source =
      mail.base64 === undefined
        ? Buffer.from(mail.source ?? '')
        : Buffer.from(mail.base64, 'base64');
    const received = mail.received === undefined ? this.service.now() : Date.parse(mail.received);
    const uid = deliver(this.service, mailbox, folder, source, mail.flags, received);
    return dataReply({ uid }, 201);
  }

  #change(change: z.output<typeof changeBody>): Reply {
    const { mailbox, folder } = this.#place(change);
    const { store } = this.service;
    switch (change.action) {
      case 'delete':
        for (const uid of change.uids) store.remove(folder, uid);
        return NO_CONTENT;
      case 'move':
      case 'copy': {
        const target = store.folderFor(mailbox, change.to);
        const uids = change.uids.map((uid) => store[change.action](folder, uid, target));
        return dataReply({ uids });
      }
      case 'flags':
        for (const uid of change.uids) store.changeFlags(folder, uid, change.add, change.remove);
        return NO_CONTENT;
      case 'renumber':
        store.renumber(folder, change.firstUid);
        return NO_CONTENT;
    }
  }

  #putToken(body: z.output<typeof tokenBody>): Reply {
    const expiresAt = body.expiresAt === null ? null : Date.parse(body.expiresAt);
    const { token, ...reach } = body;
    this.service.tokens.put(token, { ...reach, expiresAt, revokedAt: null });
    return NO_CONTENT;
  }

  #place(at: { readonly mailbox: string; readonly folder: string }): {
    readonly mailbox: Mailbox;
    readonly folder: Folder;
  } {
    const mailbox = findMailbox(this.service, at.mailbox);
    if (mailbox === null) throw invalid({ mailbox: ['is not known'] });
    return { mailbox, folder: this.service.store.folderFor(mailbox, at.folder) };
  }
}

function body(request: IncomingMessage): Promise<unknown> {
  return readJsonBody(request, MAX_BODY_BYTES);
}
