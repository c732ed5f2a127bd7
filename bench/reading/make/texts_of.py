"""Texts that several files tell."""

FERRY = [
    "The ferry between Port Alder and Marsh Island has sailed since 1931. It carries at most 148 passengers and 22 cars.",
    "In winter the last boat leaves Port Alder at 18:40, because the harbour lights are switched off an hour later.",
    "A day ticket costs 7.50 for adults. Children under six years travel free if an adult holds their hand at the gangway.",
    "Dogs stay on the lower deck. Bicycles are tied to the rail on the left side, and their owners bring their own rope.",
    "The engine was replaced in 2009 after a fire in the pump room. No person was hurt, but the boat lay still for eleven weeks.",
    "Captain Ines Thorvald has steered the boat for nineteen years and knows every sandbank between the two piers.",
]

MUSEUM = [
    "The clock museum in Weststrasse shows 412 clocks from five centuries. The oldest one was built in Augsburg in 1573.",
    "Visitors wind the tower clock themselves at noon. Its pendulum weighs 96 kilograms and swings every two seconds.",
    "The workshop repairs clocks of private owners on Thursdays. An estimate is free and takes about twenty minutes.",
    "The collection was given to the town by the watchmaker Ottilie Brandt, who had no heirs, in the spring of 1958.",
    "Photographs are allowed without a flash. School classes book their visit two weeks ahead by telephone.",
    "The cellar stays closed until the water damage has been repaired, which will take until September at the earliest.",
]

GARDEN = [
    "Each allotment has 240 square metres. At least a third of it must grow vegetables or fruit, which the board checks in July.",
    "Water is turned off from November to March. Members empty their pipes before the first frost and leave the taps open.",
    "The rent is 95 a year and is due on the first of February. Who pays after the end of March owes a fee of 12.",
    "Motor mowers may run on weekdays from nine to noon and from three to six, and never on Sundays.",
    "Bees are welcome on plots that lie at least fifteen metres from the playground. Three hives are the most for a plot.",
    "Members vote for the board every three years. A member who rents two plots still has one vote.",
]

RUSSIAN = [
    "Городская библиотека открыта с понедельника по субботу. Читательский билет выдаётся бесплатно при предъявлении паспорта.",
    "Одновременно можно взять не более восьми книг на двадцать один день. Срок продлевают по телефону один раз.",
    "За каждый день просрочки взимается плата три рубля. Утерянную книгу заменяют равноценной.",
]

SPANISH = [
    "El mercado de la plaza abre los miércoles y los sábados a las siete de la mañana.",
    "Los puestos de pescado pagan una tasa de cuarenta euros al mes; los de flores, veinticinco.",
    "Desde 1987 la asociación de vecinos organiza en octubre la feria de la calabaza.",
]

GERMAN = [
    "Die Turnhalle wird im August für sechs Wochen geschlossen, weil der Schwingboden erneuert werden muss.",
    "Vereine melden ihren Ersatzbedarf bis zum 15. Mai schriftlich bei der Gemeindeverwaltung an.",
    "Für Veranstaltungen mit über zweihundert Besuchern ist ein Sicherheitskonzept vorzulegen.",
]

THAI = [
    "ห้องสมุดประชาชนเปิดให้บริการทุกวันยกเว้นวันจันทร์",
    "ผู้อ่านยืมหนังสือได้ครั้งละห้าเล่มเป็นเวลาสิบสี่วัน",
    "ค่าปรับหนังสือเกินกำหนดวันละสองบาทต่อเล่ม",
]

ARABIC = [
    "تفتح المكتبة أبوابها كل يوم من التاسعة صباحا حتى السادسة مساء",
    "يمكن لكل قارئ استعارة أربعة كتب لمدة أسبوعين",
    "رسوم التأخير درهم واحد عن كل يوم",
]

CHINESE = [
    "图书馆每天上午九点开门，晚上八点关门，星期一休息。",
    "每位读者一次最多可以借六本书，借期为三十天。",
    "逾期还书每本每天收费两角，遗失图书按原价赔偿。",
]
