/** Kept apart from the matching rules because browsers load only the names. */
export const FILE_GROUPS = ['pdf', 'pictures', 'documents', 'tables', 'archives', 'other'] as const;
export type FileGroup = (typeof FILE_GROUPS)[number];
