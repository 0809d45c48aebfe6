export type Entry = {
  page: string
  heading: string
  address: string
  text: string
  weight: number
  keywords?: string
  kind?: string
}
export type Index = { readonly prepared: readonly unknown[] }
export function prepare(sections: readonly Entry[]): Index
export function rank(index: Index, query: string, limit?: number): Entry[]
