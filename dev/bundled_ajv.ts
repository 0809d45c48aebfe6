// The bundle of a CommonJS package has only a default export. This one has the name that tests import.
export { Ajv2020 } from 'ajv/dist/2020.js'
