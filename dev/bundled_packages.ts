/**
 * Packages of hundreds of small modules, and the file of each in the bundle for tests: loading them one by one is a third
 * of a second of processor time for every test file.
 */
export const bundledPackages = new Map([
  ['typebox', 'typebox.js'],
  ['typebox/compile', 'typebox_compile.js'],
])
