import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ExportFiles } from '../../src/transfer/export-files.ts';
import type { ExportFormat } from '../../src/transfer/export-manifest.ts';
import { runExport } from '../../src/transfer/run-export.ts';
import { endings, powerCuts } from '../archive/endings.ts';
import { Killed, SimulatedDisk, systemError } from '../archive/simulated-disk.ts';
import { exporting, StoredArchive, sampleSources } from './stored-archive.ts';

const CUTS = powerCuts(1);

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
    sidecar: true,
  });

const contents = (disk: SimulatedDisk) =>
  disk.paths().map((path) => [path, disk.read(path).toString('latin1')]);
const finals = (disk: SimulatedDisk) =>
  contents(disk).filter(([path]) => !/\.tmp$|unfinished\.json$/.test(path ?? ''));

describe.each(['eml', 'mbox', 'maildir', 'zip'] as const)('%s', (format) => {
  it(`killed, or without power, at any act: whole files only, and the same command finishes it (${CUTS} seeds)`, {
    timeout: 120_000 + CUTS * 30_000,
  }, async () => {
    const undisturbed = new SimulatedDisk();
    await exportTo(undisturbed, format);
    const whole = new Map(contents(undisturbed).map(([path, bytes]) => [path, bytes]));
    expect([...whole.keys()].some((path) => /tmp$|unfinished/.test(path ?? ''))).toBe(false);
    for (const { name, after } of endings(CUTS)) {
      for (let act = 0; act < undisturbed.acts; act += 1) {
        const disk = new SimulatedDisk();
        disk.fault = (_act, _path, count) => {
          if (count === act) throw new Killed(`at act ${act}`);
          return undefined;
        };
        await expect(exportTo(disk, format)).rejects.toThrow();
        const next = after(disk);
        // A zip is opened through the system, which knows no simulated disk: it has none before the end.
        for (const [path, bytes] of finals(next))
          expect(bytes, `${name}, act ${act}: ${path}`).toBe(whole.get(path));
        if (format === 'zip' && next.paths().includes(target.zip)) continue;
        await exportTo(next, format);
        expect(contents(next), `${name}, act ${act}`).toEqual(contents(undisturbed));
      }
    }
  });

  it('no room at any write: reports it, leaves nothing half-written, and resumes when there is room', async () => {
    const undisturbed = new SimulatedDisk();
    await exportTo(undisturbed, format);
    let failures = 0;
    for (let k = 0; ; k += 1) {
      const disk = new SimulatedDisk();
      let writes = 0;
      disk.fault = (act, path) => {
        if (act === 'write' && writes++ === k) throw systemError('ENOSPC', path);
        return undefined;
      };
      const outcome = await exportTo(disk, format).catch((error: unknown) => error);
      if (!(outcome instanceof Error)) break;
      failures += 1;
      expect(outcome).toMatchObject({ code: 'export-disk-full' });
      expect(disk.paths().filter((path) => path.endsWith('.tmp'))).toEqual([]);
      await exportTo(disk, format);
      expect(contents(disk)).toEqual(contents(undisturbed));
    }
    expect(failures).toBeGreaterThan(0);
  });

  it('no room after any share of it: the same', async () => {
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

it.each(['eml', 'mbox', 'maildir', 'zip'] as const)(
  'a folder that cannot be made is reported with the reason of the system (%s)',
  async (format) => {
    const files = filesOf(new SimulatedDisk());
    const refusing = {
      ...files,
      makeFolder(folder: string): void {
        throw systemError('EACCES', folder);
      },
    };
    await expect(
      runExport({ ...exporting(archive, target[format], format), files: refusing }),
    ).rejects.toMatchObject({ code: 'export-write-failed', facts: { errno: 'EACCES' } });
  },
);
