/** Kinds of attachments, as people look for them. They stand apart from how a group is found: browsers load the names only. */
export const FILE_GROUPS = ['pdf', 'pictures', 'documents', 'tables', 'archives', 'other'] as const;
export type FileGroup = (typeof FILE_GROUPS)[number];
