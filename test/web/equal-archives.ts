import { expect } from 'vitest';
import { mailkeep } from '../cli/child.ts';
import { type Letter, START, StoredArchive } from '../export/stored-archive.ts';
import { letter } from './served.ts';

/*
 * Three archives have the same mailbox, and differ in what else they have: nothing, some, more. Whoever may read that
 * mailbox only must not be able to tell them apart by any byte of any answer.
 */

export const HOUR = 3_600_000;
export const OURS = 'anna@example.org';
export const THEIRS = 'zebra@example.org';

function withFile(name: string, subject: string): Buffer {
  return Buffer.from(
    [
      `Message-ID: <${name}@example.org>`,
      'Date: Tue, 03 Feb 2026 10:00:00 +0000',
      'From: Anna Berg <anna@example.org>',
      `Subject: ${subject}`,
      'MIME-Version: 1.0',
      'Content-Type: multipart/mixed; boundary="b"',
      '',
      '--b',
      'Content-Type: text/html',
      '',
      '<p>See the <b>timetable</b>.</p>',
      '--b',
      `Content-Type: text/plain; name="${name}.txt"`,
      `Content-Disposition: attachment; filename="${name}.txt"`,
      '',
      'the timetable of the ferry',
      '--b--',
      '',
    ].join('\r\n'),
  );
}

export const ferry = Buffer.from(letter('Ferry', 'When does it leave?'));
export const reply = Buffer.from(
  letter('Re: Ferry', 'At noon.', ['In-Reply-To: <ferry@example.org>']),
);
export const gone = Buffer.from(letter('Gone', 'Deleted later.'));
/** Also in the other mailbox, and there before it came to ours. */
export const shared = Buffer.from(letter('Minutes', 'Known to both.'));
/** In seconds of their own: messages of one second are listed in the order in which the archive met them anywhere. */
const sharedAt = { date: new Date(START + 1000).toISOString() };
const timetableAt = { date: new Date(START + 2000).toISOString() };
export const timetable = withFile('timetable', 'Timetable');
/** In the second in which most others came, here and there. */
export const menu = withFile('menu', 'Menu');
export const theirs = ['Ferry too', 'Zebra', 'Okapi'].map((subject) =>
  Buffer.from(letter(subject, 'Not for us.', ['In-Reply-To: <ferry@example.org>'])),
);
export const theirFile = withFile('okapi', 'Okapi');
/** In the same second as ours, which the catalog numbers together. */
const received = new Date(START).toISOString();
const at = (folder: string, source: Buffer, more: Partial<Letter> = {}): Letter => ({
  ...{ folder, source, date: received, subject: 'As listed' },
  ...more,
});

/** Docids in the second of our messages, whoever may have one of them. */
export const POSITIONS = [-1, 0, 1, 2, 3, 4, 5, 6, 7, 9, 63, 64].map(
  (rank) => (START / 1000) * 64 + rank,
);

interface Other {
  readonly letters: readonly Letter[];
  readonly commits: number;
}

export const OTHERS: readonly (Other | null)[] = [
  null,
  { letters: [at('INBOX', shared, sharedAt)], commits: 1 },
  {
    letters: [
      at('Zebra', shared, sharedAt),
      ...theirs.map((source) => at('INBOX', source)),
      at('Zebra', theirFile),
      at('Zebra', timetable, timetableAt),
    ],
    commits: 4,
  },
];

/** Writes an archive whose commits about our mailbox are the same, at the same times. */
export async function archiveWith(other: Other | null): Promise<StoredArchive> {
  const archive = await StoredArchive.create();
  let spent = 0;
  const others = async (hour: number): Promise<void> => {
    for (let i = 0; i < (other?.commits ?? 0); i += 1) {
      const letters = other?.letters.slice(spent, spent + 2) ?? [];
      spent += letters.length;
      const quarantined = i === 0 ? [{ folder: 'INBOX', uid: 1000 + hour }] : [];
      await archive.store(letters, {
        ...{ mailbox: THEIRS, quarantined },
        at: START + hour * HOUR + (i + 1) * 60_000,
      });
    }
  };
  await others(0);
  await archive.store([at('INBOX', ferry), at('INBOX', gone)], { at: START + HOUR });
  await others(1);
  const second = [
    at('INBOX', reply),
    at('Work/Plans', shared, sharedAt),
    at('INBOX', timetable, timetableAt),
    at('INBOX', menu),
  ];
  await archive.store(second, {
    at: START + 2 * HOUR,
    quarantined: [{ folder: 'INBOX', uid: 99 }],
  });
  await others(2);
  await archive.store([at('INBOX', ferry, { uid: 1, flags: ['\\Seen'] })], {
    at: START + 3 * HOUR,
  });
  await archive.store([], { ended: [{ folder: 'INBOX', uid: 2 }], at: START + 4 * HOUR });
  await others(4);
  const { code, stderr } = await mailkeep(['rebuild', '--data', archive.dir, '--quiet']);
  expect([code, stderr]).toEqual([0, '']);
  return archive;
}
