/** Whether the name of a file would lead out of the folder that it is looked up in. */
export function leadsOutside(name: string): boolean {
  return name.startsWith('/') || name.includes('\\') || name.includes('\0') || /(^|\/)\.\.(\/|$)/.test(name);
}
