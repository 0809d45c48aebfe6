/** What a drill writes into changes, to find them wherever they have been. */
export const markOf = (n: number): string => `mark-${n}-of-the-drill`
export const marksIn = (text: string): string[] => text.match(/mark-\d+-of-the-drill/g) ?? []
