/** The reasons of `prune`, in words. */

/** Why `prune` removes a message. The keys are the reasons of a plan. */
export const PRUNED_WHY = {
  ended: 'deleted longer ago than retention.endedAfterDays',
  draft: 'versions of drafts, deleted longer ago than retention.draftsAfterDays',
  rule: 'deleted longer ago than a rule of retention.rules says',
} as const;

/** Why it keeps a message. */
export const KEPT_WHY = {
  hold: 'on hold',
  'no-rule': 'no rule allows it',
  'too-recent': 'deleted too recently',
  unreachable: 'in a mailbox that, as far as known, no account lists',
  'not-confirmed': 'no complete comparison of the folder a week later confirmed the deletion',
  'folder-reused': 'another folder had the same name',
  'keep-at-least': 'among the newest of their folder (retention.keepAtLeast)',
} as const;
