#include "apps/thimble/eval/texts.h"

#include <array>

namespace thimble::app {
namespace {

// Names, numbers and promises come back later: a model that lost the beginning reads it worse.
constexpr std::string_view kStory =
    R"(The ferry to Varn Island left at ten past six, and Marta Ilves had been told twice that it
would not wait. She carried a tin box with seventeen brass keys in it, wrapped in a towel so that
they would not rattle. Her uncle Olev had kept the lighthouse for thirty-one years. He had never
thrown a key away, and he had never labelled one either.

"You are the surveyor," said the ferryman. It was not a question.

"I am the niece," said Marta. "The surveyor comes on Thursday. I have to open every door before he
does."

The ferryman looked at the box for a while. He was called Jaan, and his left hand had four fingers.
"There are eighteen doors," he said.

She counted again on the bench by the engine, where it was warm. Seventeen. A long one for the
gate; two that were twins; one with a blue thread through its ring; a flat one, bent, that smelled
of paraffin. The sea was the colour of slate, and rain walked over it in columns. When the island
came out of the grey it looked smaller than in the photographs, and the tower taller.

By noon she had opened nine doors. The twins belonged to the two oil stores, and either fitted
both. The key with the blue thread opened the cellar, where her uncle had kept apples on racks, each
wrapped in a page of the shipping news. She unwrapped one and read that the barque Henriette had
been sighted on the second of March with her foremast gone. The apple was sound. She ate it on the
steps and thought about the surveyor, whose name was Pold, and who had written three letters in a
month, each shorter than the last.

In the afternoon the wind went round to the north. She opened the signal room, the lamp room, the
store where the flags were kept in pigeonholes from A to Z, and the small door under the stairs that
led nowhere at all. Sixteen doors, sixteen keys. The flat one was left, and it fitted the
eighteenth door as badly as the seventeenth: it went in, it turned a little, and it stopped.

Jaan came back at dusk, though no ferry was due. He had walked over the causeway, which the tide
uncovers for an hour. "Your uncle lent me something," he said, and put a key on the table. It had a
blue thread through its ring, like the other. "He said I should bring it when someone counted."

"How did you know that I would?"

"You counted on the boat," said Jaan. "Olev never did. That is why there was always one missing."

They tried the new key in both doors. It opened the eighteenth, behind which stood a bed, a stove,
and a desk with one drawer. The drawer was locked. Marta took the flat, bent key that smelled of
paraffin, and it turned as if it had been oiled that morning. In the drawer lay a notebook, and on
its first page, in her uncle's square hand, a list: eighteen doors, eighteen keys, and beside every
one of them, in pencil, what it had been for.

On Thursday the surveyor found all the doors open. He asked who had labelled the keys. "The
lighthouse keeper," said Marta Ilves, and she did not say which one.
)";

constexpr std::string_view kProgram =
    R"(# Inventory of a small workshop: parts, drawers, and what is running out.
DRAWERS = 24
RESTOCK_BELOW = 5

class Part:
    def __init__(self, name, drawer, count, price_cents):
        if not 0 <= drawer < DRAWERS:
            raise ValueError(f"drawer {drawer} is not one of {DRAWERS}")
        self.name = name
        self.drawer = drawer
        self.count = count
        self.price_cents = price_cents

    def value_cents(self):
        return self.count * self.price_cents

class Inventory:
    def __init__(self):
        self.parts = {}

    def add(self, part):
        known = self.parts.get(part.name)
        if known is None:
            self.parts[part.name] = part
        elif known.drawer != part.drawer:
            raise ValueError(f"{part.name} lies in drawer {known.drawer}")
        else:
            known.count += part.count

    def take(self, name, wanted):
        part = self.parts[name]
        if part.count < wanted:
            raise ValueError(f"{wanted} x {name} wanted, {part.count} left")
        part.count -= wanted
        return part.value_cents()

    def running_out(self):
        low = [p for p in self.parts.values() if p.count < RESTOCK_BELOW]
        return sorted(low, key=lambda p: (p.count, p.name))

    def total_cents(self):
        return sum(part.value_cents() for part in self.parts.values())

def report(inventory):
    lines = []
    for part in inventory.running_out():
        lines.append(f"{part.name:<20} drawer {part.drawer:>2}  {part.count} left")
    total = inventory.total_cents()
    lines.append(f"worth {total // 100}.{total % 100:02d}")
    return "\n".join(lines)

inventory = Inventory()
inventory.add(Part("bearing 608", drawer=3, count=40, price_cents=85))
inventory.add(Part("belt GT2 6 mm", drawer=7, count=4, price_cents=310))
inventory.add(Part("screw M3x8", drawer=11, count=900, price_cents=4))
inventory.add(Part("spring 12 mm", drawer=11, count=2, price_cents=55))
inventory.take("bearing 608", 36)
inventory.take("screw M3x8", 250)
print(report(inventory))
# bearing 608, belt GT2 6 mm and spring 12 mm are running out.
)";

constexpr std::array kTexts = {BuiltInText{"story", kStory}, BuiltInText{"program", kProgram}};

}  // namespace

std::span<const BuiltInText> built_in_texts() { return kTexts; }

}  // namespace thimble::app
