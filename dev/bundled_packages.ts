/**
 * Packages of dozens or hundreds of small modules, with the file of each in the tests' bundle. Loading the modules one
 * by one took a large part of every test file's start.
 */
export const bundledPackages = new Map([
  ['typebox', 'typebox.js'],
  ['typebox/compile', 'typebox_compile.js'],
  ['pg', 'pg.js'],
  ['ajv/dist/2020.js', 'ajv_2020.js'],
])
