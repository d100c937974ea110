import type { History } from './history.ts';

const QUIET = {
  full: false,
  daemon: false,
  acts: [],
  faults: [],
  powerCut: null,
  hoursLater: 0,
  again: 0,
};

/** Histories that once ended with a mirror unlike its origin, as they were shrunk, by what went wrong. */
export const REGRESSIONS: Readonly<Record<string, History>> = {
  'uids reassigned between a listing and its sources: bytes were filed under other messages': {
    host: 'plain',
    start: [6, 0],
    steps: [
      {
        between: [{ act: 'move', folder: 0, message: 0, to: 9 }],
        pass: { ...QUIET, acts: [{ at: 2, act: { act: 'renumber', folder: 0, above: false } }] },
      },
      { between: [], pass: QUIET },
    ],
  },
  'uids reassigned before an assumed place was verified: the past was corrected to another message':
    {
      host: 'plain',
      start: [0, 2],
      steps: [
        { between: [{ act: 'move', folder: 15, message: 0, to: 0 }], pass: QUIET },
        {
          between: [],
          pass: { ...QUIET, acts: [{ at: 0, act: { act: 'deliver', folder: 1, unseen: false } }] },
        },
        {
          between: [
            { act: 'delete', folder: 3, message: 0 },
            { act: 'move', folder: 0, message: 0, to: 3 },
          ],
          pass: QUIET,
        },
        {
          between: [
            { act: 'renumber', folder: 15, above: false },
            { act: 'deliver', folder: 9, unseen: false },
          ],
          pass: {
            ...QUIET,
            daemon: true,
            acts: [{ at: 1, act: { act: 'renumber', folder: 31, above: true } }],
          },
        },
      ],
    },
  'a host that cannot be searched: the canary put a message that came whole into quarantine': {
    host: 'no-search',
    start: [0],
    steps: [
      {
        between: [{ act: 'deliver', folder: 0, unseen: false }],
        pass: { ...QUIET, acts: [{ at: 0, act: { act: 'flag', folder: 0, message: 0, flag: 0 } }] },
      },
    ],
  },
  'a copied message: its page was never covered, and the second such pass blamed the service': {
    host: 'plain',
    start: [2, 0],
    steps: [
      { between: [], pass: QUIET },
      { between: [{ act: 'copy', folder: 0, message: 0, to: 1 }], pass: QUIET },
      { between: [{ act: 'copy', folder: 1, message: 0, to: 1 }], pass: { ...QUIET, again: 1 } },
    ],
  },
  'a draft that moved: it is fetched, and its page was never covered': {
    host: 'plain',
    // A folder that had no message yet is looked at once more in the same pass, which covers the page after all.
    start: [1, 1],
    steps: [
      {
        between: [
          { act: 'draft', message: 0, rewrites: false },
          { act: 'draft', message: 0, rewrites: false },
        ],
        pass: QUIET,
      },
      { between: [{ act: 'move', folder: 2, message: 0, to: 1 }], pass: QUIET },
    ],
  },
  'a moved message whose folder went before it was verified: the pass failed with the status of a folder that is gone':
    {
      host: 'plain',
      start: [3, 0],
      steps: [
        { between: [], pass: QUIET },
        { between: [{ act: 'move', folder: 0, message: 0, to: 1 }], pass: QUIET },
        { between: [{ act: 'drop', folder: 1 }], pass: { ...QUIET, daemon: true } },
      ],
    },
  'a folder renumbered after the sweep under way had read it: its old places were never looked for':
    {
      host: 'plain',
      start: [52],
      steps: [
        { between: [], pass: { ...QUIET, full: true, daemon: true } },
        {
          between: [
            { act: 'copy-all', folder: 0, to: 0 },
            { act: 'renumber', folder: 0, above: true },
          ],
          pass: { ...QUIET, full: true, daemon: true },
        },
      ],
    },
  'a message in quarantine that was deleted: it was counted on until the next try': {
    host: 'plain',
    start: [0],
    steps: [
      {
        between: [{ act: 'deliver', folder: 0, unseen: false }],
        pass: { ...QUIET, faults: [{ at: 3, status: 404 }] },
      },
      { between: [], pass: { ...QUIET, daemon: true, faults: [{ at: 3, status: 404 }] } },
      { between: [{ act: 'delete', folder: 0, message: 0 }], pass: { ...QUIET, daemon: true } },
    ],
  },
  'a folder renumbered, then renamed before it was read: what it held before was neither ended nor held':
    {
      host: 'imap',
      start: [0, 1],
      steps: [
        { between: [], pass: QUIET },
        {
          between: [{ act: 'renumber', folder: 1, above: false }],
          pass: { ...QUIET, acts: [{ at: 1, act: { act: 'rename', folder: 1 } }] },
        },
        { between: [], pass: QUIET },
      ],
    },
};
