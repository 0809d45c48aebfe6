/** The rows of `show stat`. Each row is a function from HAProxy's column name to the value. */
export function statRows(text: string): ((column: string) => string)[] {
  const [head = '', ...rows] = text.trim().split('\n')
  const places = new Map(
    head
      .replace(/^# /, '')
      .split(',')
      .map((column, place) => [column, place] as const),
  )
  return rows.map((row) => {
    const values = row.split(',')
    return (column) => values[places.get(column) ?? -1] ?? ''
  })
}
