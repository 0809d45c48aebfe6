// `npm run docs`: the pages of docs/ as a static site in .docs, where `gatehouse serve` finds them in a checkout.
import { buildDocs, docsFolder } from './docs_site/build.ts'

const { pages, bytes } = await buildDocs(docsFolder)
console.log(`${pages} pages in ${docsFolder}, ${Math.round(bytes / 1024)} KiB`)
