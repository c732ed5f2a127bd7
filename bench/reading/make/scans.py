"""Pictures of printed pages."""

import io
import random

from PIL import Image, ImageDraw, ImageFont

from common import add, table_text
from texts_of import FERRY, GARDEN, MUSEUM

FONTS = "/usr/share/fonts/truetype/dejavu/"


def font(points, dpi, name="DejaVuSerif"):
    return ImageFont.truetype(f"{FONTS}{name}.ttf", round(points * dpi / 72))


def wrapped(text, typeface, width):
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if typeface.getlength(longer) > width and lines[-1]:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def write_column(draw, title, paragraphs, left, top, width, dpi, points=11):
    y = top
    if title:
        draw.text((left, y), title, font=font(points * 1.6, dpi, "DejaVuSerif-Bold"), fill=0)
        y += round(points * 2.8 * dpi / 72)
    typeface = font(points, dpi)
    for paragraph in paragraphs:
        for line in wrapped(paragraph, typeface, width):
            draw.text((left, y), line, font=typeface, fill=0)
            y += round(points * 1.4 * dpi / 72)
        y += round(points * 0.9 * dpi / 72)
    return y


def page(title, paragraphs, dpi=200, size=(6.2, 6), points=11):
    image = Image.new("L", (round(size[0] * dpi), round(size[1] * dpi)), 255)
    margin = round(0.5 * dpi)
    write_column(ImageDraw.Draw(image), title, paragraphs, margin, margin, image.width - 2 * margin, dpi, points)
    return image


def encoded(image, kind="PNG", bits=True, **options):
    out = io.BytesIO()
    (image.convert("1", dither=Image.Dither.NONE) if bits else image).save(out, kind, **options)
    return out.getvalue()


def text_of(title, paragraphs):
    return "\n".join([title, *paragraphs])


TICKETS = [
    ["Ticket", "Adult", "Child", "Valid"],
    ["Single", "4.20", "2.10", "one crossing"],
    ["Day", "7.50", "3.75", "until midnight"],
    ["Week", "31.00", "15.50", "seven days"],
    ["Season", "184.00", "92.00", "April to October"],
]


def table_picture():
    dpi = 200
    image = Image.new("L", (round(6.4 * dpi), round(3.6 * dpi)), 255)
    draw = ImageDraw.Draw(image)
    left, top, width, height = 100, 90, [210, 200, 200, 440], 84
    typeface = font(11, dpi, "DejaVuSans")
    draw.text((left, 24), "Fares of the island ferry", font=font(14, dpi, "DejaVuSans-Bold"), fill=0)
    for row, cells in enumerate(TICKETS):
        x, y = left, top + row * height
        for cell, wide in zip(cells, width):
            draw.rectangle((x, y, x + wide, y + height), outline=0, width=3)
            draw.text((x + 18, y + 24), cell, font=typeface, fill=0)
            x += wide
    return image


def uneven_light(image):
    """A page as a phone takes it: a shadow over one corner, noise, soft letters."""
    chance = random.Random(7)
    small = Image.new("L", (8, 8))
    small.putdata([round(235 - 12 * (x + y) * 0.9) for y in range(8) for x in range(8)])
    shadow = small.resize(image.size, Image.Resampling.BICUBIC)
    noise = Image.frombytes("L", image.size, bytes(chance.randrange(0, 24) for _ in range(image.width * image.height)))
    pixels = [max(0, page * light // 255 - grain) for page, light, grain in zip(image.getdata(), shadow.getdata(), noise.getdata())]
    result = Image.new("L", image.size)
    result.putdata(pixels)
    return result


def make():
    two = Image.new("L", (1500, 1000), 255)
    draw = ImageDraw.Draw(two)
    draw.text((90, 60), "Island and museum news", font=font(18, 200, "DejaVuSerif-Bold"), fill=0)
    write_column(draw, "", FERRY[:3], 90, 180, 620, 200, 10)
    write_column(draw, "", MUSEUM[:3], 800, 180, 620, 200, 10)
    add("scan-two-columns.png", encoded(two), "scan, two columns, 200 dpi", text_of("Island and museum news", FERRY[:3] + MUSEUM[:3]))

    add("scan-table.png", encoded(table_picture()), "scan of a ruled table", "Fares of the island ferry\n" + table_text(TICKETS))

    low = page("Rules of the garden", GARDEN[:4], dpi=300, size=(6.2, 4), points=12)
    low = low.resize((low.width // 4, low.height // 4), Image.Resampling.LANCZOS)
    add("scan-75-dpi.png", encoded(low, bits=False, dpi=(75, 75)), "scan, 75 dpi", text_of("Rules of the garden", GARDEN[:4]))

    turned = page("The clock museum", MUSEUM[:4], size=(6.2, 4)).rotate(90, expand=True)
    add("scan-rotated-90.png", encoded(turned), "scan, turned by 90 degrees", text_of("The clock museum", MUSEUM[:4]))

    overhead = page("The island ferry", FERRY[2:], size=(6.2, 4)).rotate(180)
    add("scan-upside-down.pdf", encoded(overhead, "PDF", resolution=200), "scan in a PDF, upside down", text_of("The island ferry", FERRY[2:]))

    skewed = page("Rules of the garden", GARDEN[2:], size=(6.2, 4.2)).rotate(4, fillcolor=255, expand=True)
    add("scan-skewed.png", encoded(skewed), "scan, skewed by 4 degrees", text_of("Rules of the garden", GARDEN[2:]))

    pages = [page("First sheet", MUSEUM[:2], size=(6.2, 2.4)), page("Second sheet", GARDEN[:2], size=(6.2, 2.4))]
    sheets = "\n".join([text_of("First sheet", MUSEUM[:2]), text_of("Second sheet", GARDEN[:2])])
    jpeg = encoded(pages[0], "TIFF", bits=False, compression="jpeg", quality=70, save_all=True, append_images=pages[1:])
    add("scan-jpeg.tif", jpeg, "TIFF of two pages, JPEG compression", sheets)

    black = [each.convert("1", dither=Image.Dither.NONE) for each in pages]
    group4 = encoded(black[0], "TIFF", compression="group4", save_all=True, append_images=black[1:], dpi=(200, 200))
    add("scan-group4.tif", group4, "TIFF of two pages, fax compression", sheets)

    photo = uneven_light(page("The island ferry", FERRY[:4], dpi=150, size=(6.2, 4)))
    add("scan-uneven-light.jpg", encoded(photo, "JPEG", bits=False, quality=55), "photo of a page, uneven light and noise", text_of("The island ferry", FERRY[:4]))
