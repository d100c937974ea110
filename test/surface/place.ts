import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import Database from 'better-sqlite3';
import { z } from 'zod';
import { stateFile } from '../../src/core/state.ts';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import type { Workplace } from '../cli/child.ts';
import { bothSurfaces } from '../cli/platform-config.ts';
import { type Receiver, receive } from '../sandbox/webhooks/receiver.ts';

/** A sandbox with a varied mailbox, an archive of it, and what the commands below need besides. */
export interface Place extends Workplace {
  readonly sandbox: Sandbox;
  readonly receiver: Receiver;
  readonly address: string;
  readonly close: () => Promise<void>;
}

export async function openPlace(): Promise<Place> {
  const sandbox = await startSandbox({ seed: 5, mail: { messages: 60 } });
  const receiver = await receive();
  const [mailbox] = sandbox.service.store.mailboxes.values();
  const place = bothSurfaces(sandbox, mailbox === undefined ? {} : { orderId: mailbox.orderId });
  const config = z.looseObject({}).parse(JSON.parse(readFileSync(place.config, 'utf8')));
  const more = { brake: { maxEndedShare: 0.1, minMessages: 1 }, retention: { endedAfterDays: 1 } };
  writeFileSync(place.config, JSON.stringify({ ...config, ...more }));
  return {
    ...place,
    sandbox,
    receiver,
    address: mailbox?.address ?? '',
    close: async () => {
      await receiver.close();
      await sandbox.close();
      rmSync(place.folder, { recursive: true, force: true });
    },
  };
}

/** Returns the scopes that the state of an archive holds now. */
export function scopesOf(data: string): string[] {
  const database = new Database(stateFile(data), { readonly: true });
  try {
    const scopes = database.prepare('SELECT DISTINCT scope FROM remembered').pluck().all();
    return z.array(z.string()).parse(scopes);
  } finally {
    database.close();
  }
}
