import { expect, onTestFinished, test } from 'vitest';
import { openLogReader, scanLog } from '../../src/archive/log-reader.ts';
import { startDovecot, withoutDovecot } from '../imap/dovecot.ts';
import { everyMessage } from '../peers/imap-client.ts';
import { Archive } from '../sync/harness.ts';
import { ModelFolder, ModelOrigin, mail } from '../sync/model-origin.ts';
import { ALL, Restoring } from './restoring.ts';

/** How many sources the log has. */
async function sourcesOf(dir: string): Promise<number> {
  let sources = 0;
  for await (const event of scanLog({ dir }))
    if (event.what === 'batch')
      sources += event.batch.records.filter(({ kind }) => kind === 'message').length;
  return sources;
}

test.skipIf(withoutDovecot())(
  'what is restored into the mailbox that is mirrored is recognised, stored no second time, and both show in its history',
  async () => {
    const archive = new Archive();
    onTestFinished(() => archive.remove());
    const origin = new ModelOrigin();
    const [inbox, trips] = [new ModelFolder('INBOX'), new ModelFolder('Trips')];
    for (let i = 1; i <= 5; i += 1) inbox.deliver(mail(`Letter ${i}`), { flags: ['\\Seen'] });
    for (let i = 1; i <= 3; i += 1) trips.deliver(mail(`Trip ${i}`));
    origin.mailbox('AC1', 'ada@example.org', [inbox, trips]);
    await archive.sync(origin);

    // The accident.
    const before = archive.clock.now();
    archive.clock.advance(3_600_000);
    trips.messages.clear();
    inbox.messages.delete(2);
    await archive.sync(origin);
    // What empties a folder has to be seen again after six hours.
    archive.clock.advance(7 * 3_600_000);
    await archive.sync(origin);
    expect((await archive.places()).size).toBe(4);
    const stored = await sourcesOf(archive.dir);

    // The mailbox's own IMAP server, with what the accident left.
    const server = await startDovecot({ specialFolders: false });
    onTestFinished(() => server.stop());
    const result = await archive.reading(async (catalog) => {
      const sources = openLogReader({ dir: archive.dir, locator: catalog.locator });
      const user = new Restoring({ catalog, sources }, server);
      onTestFinished(() => user.remove());
      await user.run(server.port, { destination: { kind: 'in-place' } });
      const selection = { ...ALL, asOf: before };
      return user.run(server.port, { destination: { kind: 'in-place' }, selection });
    });
    // Only what was lost is sent.
    expect([result.planned, result.present, result.appended]).toEqual([8, 4, 4]);

    // The mailbox as its provider now shows it.
    for (const folder of [inbox, trips]) folder.messages.clear();
    for await (const { folder, source, flags, date } of everyMessage(server))
      (folder === 'INBOX' ? inbox : trips).deliver(source, { flags: [...flags], date });
    await archive.sync(origin);
    expect((await archive.places()).size).toBe(8);
    expect(await sourcesOf(archive.dir)).toBe(stored);
    await archive.reading((catalog) => {
      const [lost] = catalog.listPlaces({ folder: 'Trips', sort: 'oldest' });
      const id = lost?.line.id ?? null;
      expect(id).not.toBeNull();
      const history = id === null ? [] : catalog.history(id);
      expect(history.map(({ event }) => event)).toEqual(['appeared', 'held', 'ended', 'appeared']);
    });
  },
);
