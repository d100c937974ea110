import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ExportFiles } from '../../src/export/export-files.ts';
import type { ExportFormat } from '../../src/export/format.ts';
import { runExport } from '../../src/export/run-export.ts';
import { Killed, SimulatedDisk, systemError } from '../archive/simulated-disk.ts';
import { exporting, StoredArchive, sampleSources } from './stored-archive.ts';

let archive: StoredArchive;
beforeAll(async () => {
  archive = await StoredArchive.create();
  await archive.store(
    sampleSources(4).map((source, i) => ({ folder: i % 2 === 0 ? 'INBOX' : 'INBOX.Sent', source })),
  );
});
afterAll(() => archive.remove());

const target: Readonly<Record<ExportFormat, string>> = {
  eml: '/out',
  mbox: '/out',
  maildir: '/out',
  zip: '/out/mail.zip',
};

function filesOf(disk: SimulatedDisk): ExportFiles {
  return {
    ...disk.files,
    kindOf(path) {
      if (disk.paths().includes(path)) return 'file';
      try {
        disk.files.list(path);
        return 'folder';
      } catch {
        return undefined;
      }
    },
    isLink: () => false,
    setModified: async () => {},
  };
}

const exportTo = (disk: SimulatedDisk, format: ExportFormat) =>
  runExport({
    ...exporting(archive, target[format], format),
    files: filesOf(disk),
    platform: 'linux',
    sidecar: true,
  });

const contents = (disk: SimulatedDisk) =>
  disk.paths().map((path) => [path, disk.read(path).toString('latin1')]);
const finals = (disk: SimulatedDisk) =>
  contents(disk).filter(([path]) => !/\.tmp$|unfinished\.json$/.test(path ?? ''));

describe.each(['eml', 'mbox', 'maildir', 'zip'] as const)('%s', (format) => {
  it('killed at any act, or cut off the power, leaves whole files only, and the same command finishes it', async () => {
    const undisturbed = new SimulatedDisk();
    await exportTo(undisturbed, format);
    const whole = new Map(contents(undisturbed).map(([path, bytes]) => [path, bytes]));
    expect([...whole.keys()].some((path) => /tmp$|unfinished/.test(path ?? ''))).toBe(false);
    for (let act = 0; act < undisturbed.acts; act += 1) {
      const disk = new SimulatedDisk();
      disk.fault = (_act, _path, count) => {
        if (count === act) throw new Killed(`at act ${act}`);
        return undefined;
      };
      await expect(exportTo(disk, format)).rejects.toThrow();
      let chance = act;
      const survives = () => {
        chance = (chance * 1103515245 + 12345) % 2147483648;
        return chance % 3 !== 0;
      };
      const next = act % 2 === 0 ? disk.afterKill() : disk.afterPowerCut(survives);
      // A zip is opened through the system, which knows no simulated disk: it has none before the end.
      for (const [path, bytes] of finals(next))
        expect(bytes, `act ${act}: ${path}`).toBe(whole.get(path));
      if (format === 'zip' && next.paths().includes(target.zip)) continue;
      await exportTo(next, format);
      expect(contents(next), `act ${act}`).toEqual(contents(undisturbed));
    }
  });

  it('says that the disk is full, leaves nothing half-written, and goes on when there is room', async () => {
    const undisturbed = new SimulatedDisk();
    await exportTo(undisturbed, format);
    const total = contents(undisturbed).reduce((sum, [, bytes]) => sum + (bytes?.length ?? 0), 0);
    for (const share of [0, 0.1, 0.5, 0.9, 0.99]) {
      const disk = new SimulatedDisk();
      disk.capacity = Math.floor(total * share);
      await expect(exportTo(disk, format)).rejects.toMatchObject({ code: 'export-disk-full' });
      expect(disk.paths().filter((path) => path.endsWith('.tmp'))).toEqual([]);
      disk.capacity = Number.POSITIVE_INFINITY;
      await exportTo(disk, format);
      expect(contents(disk)).toEqual(contents(undisturbed));
    }
  });

  it('names what the disk says otherwise', async () => {
    const disk = new SimulatedDisk();
    disk.fault = (act, path) => {
      if (act === 'datasync') throw systemError('EIO', path);
      return undefined;
    };
    await expect(exportTo(disk, format)).rejects.toMatchObject({
      code: 'export-write-failed',
      facts: { errno: 'EIO' },
    });
  });
});
