/** What every option for a port shares. */
export const PORT = { type: 'integer', value: 'PORT', min: 0, max: 65_535 } as const;
