/** As much of it as we use. */
declare module 'json-schema-faker' {
  export function generateSync(
    schema: object,
    options: { seed: number; optionalsProbability: number; maxDefaultItems: number },
  ): unknown
}
