import { DraftBar } from '../draft/bar.tsx'
import { Unconfirmed } from './unconfirmed.tsx'

/** Above every page: decisions that someone has to make. */
export function Notes() {
  return (
    <>
      <Unconfirmed />
      <DraftBar />
    </>
  )
}
