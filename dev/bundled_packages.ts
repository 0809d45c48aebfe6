/**
 * Packages of dozens or hundreds of small modules, and the file of each in the bundle for tests. Loading the modules one by
 * one took a large part of the start of every test file.
 */
export const bundledPackages = new Map([
  ['typebox', 'typebox.js'],
  ['typebox/compile', 'typebox_compile.js'],
  ['pg', 'pg.js'],
  ['ajv/dist/2020.js', 'ajv_2020.js'],
])
